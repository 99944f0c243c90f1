#include "lockstep/checkpoint/foreign/dcp_sink.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/crc32.h"
#include "lockstep/checkpoint/foreign/torch_pickle.h"

namespace lockstep::checkpoint {
namespace {

constexpr const char* kDataFile = "__0_0.distcp";
const std::string kFolder = "archive/";

std::vector<StoredTensor> checked(std::vector<StoredTensor> tensors,
                                  const std::filesystem::path& dir) {
  std::vector<Problem> problems = state_dict_problems(tensors, dir.string());
  if (std::filesystem::exists(dir / kDcpMetadataFile)) {
    problems.push_back({"LS-5020", dir.string(), "the folder holds a checkpoint already",
                        "name a new folder, or remove that one"});
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
  return tensors;
}

std::filesystem::path data_file(const std::filesystem::path& dir) {
  std::filesystem::create_directories(dir);
  return dir / kDataFile;
}

/// The pickle of a tensor alone: what torch_pickle() has between the name and the end of its dict.
std::string tensor_pickle(StoredTensor tensor) {
  tensor.name.clear();
  tensor.aliases.clear();
  const std::string_view name("X\0\0\0\0", 5);
  const std::string_view end = "u.";
  const std::string around = torch_pickle({});
  const std::string pickle = torch_pickle({&tensor, 1});
  const std::size_t begin = around.size() - end.size();
  LOCKSTEP_CHECK(pickle.substr(begin, name.size()) == name && pickle.ends_with(end),
                 "a pickle of another form");
  const std::size_t length = pickle.size() - begin - name.size() - end.size();
  return "\x80\x02" + pickle.substr(begin + name.size(), length) + ".";
}

}  // namespace

DcpSink::DcpSink(const std::filesystem::path& dir, std::vector<StoredTensor> tensors)
    : dir_(dir), tensors_(checked(std::move(tensors), dir)), file_(data_file(dir)) {
  begin_item();
}

void DcpSink::put(std::string_view bytes) { put_data(std::as_bytes(std::span(bytes))); }

void DcpSink::put_data(std::span<const std::byte> bytes) {
  file_.write(bytes);
  position_ += bytes.size();
}

void DcpSink::begin_entry(const std::string& name, std::uint64_t bytes) {
  records_.push_back({kFolder + name, position_ - items_.back().offset, bytes});
  put(zip::local_header(records_.back()));
  left_ = bytes;
}

void DcpSink::put_entry(const std::string& name, std::string_view text) {
  begin_entry(name, text.size());
  records_.back().crc32 = crc32(std::as_bytes(std::span(text)));
  put(text);
  put(zip::descriptor(records_.back()));
  left_ = 0;
}

/// Begins the items behind those that are complete: those without bytes are so at once.
void DcpSink::begin_item() {
  while (left_ == 0 && items_.size() < tensors_.size()) {
    const StoredTensor& tensor = tensors_[items_.size()];
    items_.push_back({kDataFile, position_, 0});
    records_.clear();
    put_entry("data.pkl", tensor_pickle(tensor));
    put_entry(".format_version", "1");
    put_entry(".storage_alignment", std::to_string(zip::kAlignBytes));
    put_entry("byteorder", "little");
    begin_entry("data/0", tensor.bytes());
    if (left_ == 0) end_item();
  }
}

void DcpSink::end_item() {
  put(zip::descriptor(records_.back()));
  put_entry("version", "3\n");
  const std::uint64_t length = position_ - items_.back().offset;
  put(zip::directory(records_, length));
  items_.back().bytes = position_ - items_.back().offset;
}

void DcpSink::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    LOCKSTEP_CHECK(left_ > 0, "more bytes written than announced");
    const auto part = bytes.first(std::min<std::uint64_t>(bytes.size(), left_));
    records_.back().crc32 = crc32(part, records_.back().crc32);
    put_data(part);
    left_ -= part.size();
    bytes = bytes.subspan(part.size());
    if (left_ > 0) continue;
    end_item();
    begin_item();
  }
}

void DcpSink::commit() {
  LOCKSTEP_CHECK(left_ == 0 && items_.size() == tensors_.size(),
                 "fewer bytes written than announced");
  file_.commit();
  AtomicFile metadata(dir_ / kDcpMetadataFile);
  const std::string pickle = dcp_metadata_pickle(tensors_, items_);
  metadata.write(std::as_bytes(std::span(pickle)));
  metadata.commit();
}

}  // namespace lockstep::checkpoint
