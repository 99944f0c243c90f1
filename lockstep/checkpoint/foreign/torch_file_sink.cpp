#include "lockstep/checkpoint/foreign/torch_file_sink.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_pickle.h"
#include "lockstep/checkpoint/format/checksum.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kIdDigits = 20;  // of each half
const std::string kFolder = "archive/";

std::string digits(std::uint64_t number) {
  std::string text = std::to_string(number);
  return std::string(kIdDigits - text.size(), '0') + text;
}

std::vector<StoredTensor> checked(std::vector<StoredTensor> tensors, const std::string& where) {
  std::vector<Problem> problems = state_dict_problems(tensors, where);
  if (!problems.empty()) throw UsageError(std::move(problems));
  return tensors;
}

}  // namespace

TorchFileSink::TorchFileSink(const std::filesystem::path& path, std::vector<StoredTensor> tensors)
    : tensors_(checked(std::move(tensors), path.string())), zip_(path) {
  const std::string pickle = torch_pickle(tensors_);
  id_ = digits(checksum(pickle));
  zip_.add(kFolder + "data.pkl", pickle);
  zip_.add(kFolder + ".format_version", "1");
  zip_.add(kFolder + ".storage_alignment", std::to_string(zip::kAlignBytes));
  zip_.add(kFolder + "byteorder", "little");
  begin_next();
}

/// Entries of no bytes are complete as soon as they have begun.
void TorchFileSink::begin_next() {
  while (zip_.left() == 0 && begun_ < tensors_.size()) {
    const StoredTensor& tensor = tensors_[begun_];
    zip_.begin(kFolder + "data/" + std::to_string(begun_), tensor.bytes());
    ++begun_;
  }
}

void TorchFileSink::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    LOCKSTEP_CHECK(zip_.left() > 0, "more bytes written than announced");
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), zip_.left());
    zip_.write(bytes.first(count));
    bytes = bytes.subspan(count);
    begin_next();
  }
}

void TorchFileSink::commit() {
  LOCKSTEP_CHECK(zip_.left() == 0 && begun_ == tensors_.size(),
                 "fewer bytes written than announced");
  zip_.add(kFolder + "version", "3\n");
  zip_.add(kFolder + ".data/serialization_id", id_ + digits(zip_.checksum_of_all()));
  zip_.commit();
}

}  // namespace lockstep::checkpoint
