#include "lockstep/checkpoint/foreign/zip_writer.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/crc32.h"

namespace lockstep::checkpoint {

void ZipWriter::put(std::string_view bytes) {
  file_.write(std::as_bytes(std::span(bytes)));
  position_ += bytes.size();
}

void ZipWriter::begin(std::string name, std::uint64_t bytes) {
  LOCKSTEP_CHECK(left_ == 0, "an entry begins before the one before is complete");
  LOCKSTEP_CHECK(name.size() <= zip::kMax16, "too long a name for an entry");
  records_.push_back({std::move(name), position_, bytes});
  put(zip::local_header(records_.back()));
  left_ = bytes;
  if (left_ == 0) end_entry();
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(bytes.size() <= left_, "more bytes written than the entry has");
  if (bytes.empty()) return;
  zip::Record& record = records_.back();
  record.crc32 = crc32(bytes, record.crc32);
  file_.write(bytes);
  position_ += bytes.size();
  left_ -= bytes.size();
  if (left_ == 0) end_entry();
}

void ZipWriter::end_entry() { put(zip::descriptor(records_.back())); }

void ZipWriter::add(std::string name, std::string_view text) {
  begin(std::move(name), text.size());
  write(std::as_bytes(std::span(text)));
}

std::uint32_t ZipWriter::checksum_of_all() const {
  std::uint32_t sum = 0;
  for (const zip::Record& record : records_) {
    sum = crc32(std::as_bytes(std::span(&record.crc32, 1)), sum);
  }
  return sum;
}

void ZipWriter::commit() {
  LOCKSTEP_CHECK(left_ == 0, "the last entry is not complete");
  put(zip::directory(records_, position_));
  file_.commit();
}

}  // namespace lockstep::checkpoint
