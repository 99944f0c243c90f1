#include "lockstep/comm/records/purpose.h"

namespace lockstep::comm {
namespace {

thread_local std::string_view current_purpose;

}  // namespace

Purpose::Purpose(std::string_view text) : outer_(current_purpose) { current_purpose = text; }
Purpose::~Purpose() { current_purpose = outer_; }
std::string_view Purpose::current() { return current_purpose; }

}  // namespace lockstep::comm
