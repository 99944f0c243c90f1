// Any bytes as the .metadata of torch.distributed.checkpoint: tensors whose chunks cover them and
// lie in files of the folder, or refused with BadData.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/dcp_metadata.h"
#include "tests/fuzz/verdict.h"

namespace {

using lockstep::checkpoint::Box;
using lockstep::checkpoint::DcpItem;
using lockstep::checkpoint::DcpMetadata;
using lockstep::checkpoint::DcpTensor;

void check_tensor(const DcpTensor& tensor) {
  LOCKSTEP_CHECK(lockstep::checkpoint::tensor_bytes(tensor.dtype, tensor.shape), "no size");
  std::vector<Box> boxes;
  for (const auto& chunk : tensor.chunks) boxes.push_back(chunk.box);
  LOCKSTEP_CHECK(lockstep::checkpoint::why_not_covered(tensor.shape, boxes).empty(), "not covered");
}

/// Files in the folder, and no byte of them in two items.
void check_items(const std::set<DcpItem>& items) {
  std::map<std::string, std::uint64_t> end_of;
  for (const DcpItem& item : items) {
    const bool is_name = !item.file.empty() && item.file != "." && item.file != ".." &&
                         item.file.find_first_of(std::string("/\0", 2)) == item.file.npos;
    LOCKSTEP_CHECK(is_name, "a path accepted");
    LOCKSTEP_CHECK(item.offset >= end_of[item.file], "items that overlap accepted");
    end_of[item.file] = item.offset + item.bytes;
    LOCKSTEP_CHECK(end_of[item.file] >= item.offset, "an item without end accepted");
  }
}

void check(const DcpMetadata& metadata) {
  std::set<std::string> names;
  std::set<DcpItem> items;
  for (const DcpTensor& tensor : metadata.tensors) {
    LOCKSTEP_CHECK(names.insert(tensor.name).second, "a name twice");
    check_tensor(tensor);
    for (const auto& chunk : tensor.chunks) items.insert(chunk.item);
  }
  for (const auto& entry : metadata.skipped) {
    LOCKSTEP_CHECK(names.insert(entry.name).second, "a name twice");
  }
  check_items(items);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    check(lockstep::checkpoint::parse_dcp_metadata(
        std::string(reinterpret_cast<const char*>(data), size), "fuzz"));
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
