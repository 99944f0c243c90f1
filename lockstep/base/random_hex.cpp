#include "lockstep/base/random_hex.h"

#include <random>

namespace lockstep {

std::string random_hex(std::size_t digits) {
  std::random_device kernel;
  std::string text;
  while (text.size() < digits) text += "0123456789abcdef"[kernel() % 16];
  return text;
}

}  // namespace lockstep
