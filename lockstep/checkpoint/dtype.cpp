#include "lockstep/checkpoint/dtype.h"

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::ScalarType::Float:
      return "F32";
    case at::ScalarType::BFloat16:
      return "BF16";
    case at::ScalarType::Half:
      return "F16";
    case at::ScalarType::Double:
      return "F64";
    case at::ScalarType::Long:
      return "I64";
    case at::ScalarType::Int:
      return "I32";
    case at::ScalarType::Short:
      return "I16";
    case at::ScalarType::Char:
      return "I8";
    case at::ScalarType::Byte:
      return "U8";
    case at::ScalarType::Bool:
      return "BOOL";
    default:
      throw Bug(__FILE__, __LINE__, std::string("no checkpoint type for ") + c10::toString(type));
  }
}

}  // namespace lockstep::checkpoint
