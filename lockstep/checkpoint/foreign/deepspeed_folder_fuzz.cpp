// Any bytes as the pickles of a folder of DeepSpeed: whole tensors that can be read to their ends,
// or refused with BadData. The input is the pickle of each file, with kEnd between two of them; the
// archive around each, and its storages, are sound.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/deepspeed_folder.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"
#include "tests/fuzz/verdict.h"

namespace {

namespace made = lockstep::checkpoint::made;
using lockstep::checkpoint::DeepSpeedSource;

constexpr std::string_view kEnd = "\n--\n";
constexpr auto kFiles = std::to_array<const char*>({
    "zero_pp_rank_0_mp_rank_00_optim_states.pt",
    "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    "zero_pp_rank_0_mp_rank_00_model_states.pt",
    "zero_pp_rank_1_mp_rank_00_model_states.pt",
});
constexpr std::size_t kStorages = 4;
constexpr std::size_t kStorageBytes = 64;

/// What is missing is no file.
void write_files(const made::TestFolder& folder, std::string_view rest) {
  const std::vector<std::string> storages(kStorages, std::string(kStorageBytes, 'x'));
  for (const char* file : kFiles) {
    const std::size_t end = std::min(rest.find(kEnd), rest.size());
    const std::string pickle(rest.substr(0, end));
    rest.remove_prefix(std::min(end + kEnd.size(), rest.size()));
    std::error_code missing;
    std::filesystem::remove(folder.path() / file, missing);
    if (!pickle.empty()) folder.write(file, made::torch_file_of(pickle, storages));
  }
}

void read_ends(const DeepSpeedSource& source) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const auto& tensor = source.tensors()[i];
    LOCKSTEP_CHECK(names.insert(tensor.name).second, "a name twice");
    for (const std::string& alias : tensor.aliases) {
      LOCKSTEP_CHECK(names.insert(alias).second, "a name twice");
    }
    std::vector<std::byte> part(std::min<std::uint64_t>(tensor.bytes(), 4096));
    source.read(i, 0, part);
    source.read(i, tensor.bytes() - part.size(), part);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const made::TestFolder folder;
  write_files(folder, {reinterpret_cast<const char*>(data), size});
  try {
    read_ends(DeepSpeedSource(folder.path()));
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
