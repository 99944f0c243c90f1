// Writes and reads safetensors files torch-free. For tests/oracles/checkpoint_test.py.
//   checkpoint_files write FILE    a file of known tensors
//   checkpoint_files read FILE     "name dtype [shape] checksum" of each tensor, in file order;
//                                  exit 4 when the file is damaged
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/checkpoint/format/safetensors.h"
#include "lockstep/checkpoint/format/tensor_file.h"

namespace lockstep::checkpoint {
namespace {

/// Byte i of a tensor is i mod 61: small enough that no float is a NaN.
std::vector<std::byte> ramp(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i % 61);
  return values;
}

void write(const std::string& path) {
  TensorFile file(path,
                  {{"blocks.0.weight", "F32", {3, 5}},
                   {"blocks.0.bias", "BF16", {3}},
                   {"half", "F16", {2, 2}},
                   {"double", "F64", {2}},
                   {"count", "I64", {}},
                   {"ids", "I32", {4}},
                   {"short", "I16", {3}},
                   {"bytes", "U8", {7}},
                   {"signed", "I8", {3}},
                   {"empty", "F32", {0, 4}},
                   {"name \"q\" \\ é", "F32", {1}}},
                  {{"format", "pt"}});
  for (const TensorInfo& tensor : file.tensors()) (void)file.write(ramp(tensor.end - tensor.begin));
  (void)file.commit();
}

void read(const std::string& path) {
  const InputFile file(path);
  const SafetensorsHeader header = read_safetensors_header(file);
  for (const TensorInfo& tensor : header.tensors) {
    std::vector<std::byte> bytes(tensor.end - tensor.begin);
    file.read(header.data_start + tensor.begin, bytes);
    std::cout << tensor.name << ' ' << tensor.dtype << ' ' << to_text(tensor.shape) << ' '
              << to_hex(checksum(bytes)) << '\n';
  }
}

}  // namespace

int run(const std::string& action, const std::string& path) {
  try {
    action == "write" ? write(path) : read(path);
    return 0;
  } catch (const Error& error) {
    std::cerr << to_text(error.problems());
    return static_cast<int>(error.exit());
  }
}

}  // namespace lockstep::checkpoint

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() != 2 || (args[0] != "write" && args[0] != "read")) return 2;
  return lockstep::checkpoint::run(args[0], args[1]);
}
