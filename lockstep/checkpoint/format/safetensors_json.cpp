#include "lockstep/checkpoint/format/safetensors_json.h"

#include <limits>
#include <utility>

#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/json_events.h"

namespace lockstep::checkpoint {
namespace {

using Type = JsonScalar::Type;

// Objects and lists around a value.
constexpr int kRoot = 1;
constexpr int kTensor = 2;  // or the metadata
constexpr int kList = 3;    // shape or range

class HeaderEvents : public JsonEvents {
 public:
  explicit HeaderEvents(const std::string& where) : JsonEvents(kList, where) {}
  SafetensorsHeader header;

 private:
  enum class Field { other, dtype, shape, range };

  void on_open(bool is_object) override {
    if (level() == kRoot && !is_object) throw_damaged(where(), "not an object");
    if (level() == kTensor && !is_object) fail("not an object");
    if (level() == kTensor) start_tensor();
    if (level() != kList) return;
    if (in_metadata_) fail_in_metadata();
    if (field_ == Field::dtype) fail("dtype: not a text");
    if (field_ != Field::other && is_object) fail(list_name() + ": not a list");
    has_shape_ = has_shape_ || field_ == Field::shape;
    has_range_ = has_range_ || field_ == Field::range;
  }

  void on_key(const std::string& key) override {
    if (level() == kRoot) {
      in_metadata_ = key == kMetadataKey;
      if (in_metadata_ && std::exchange(has_metadata_, true)) {
        throw_damaged(where(), "key \"" + key + "\" twice");
      }
      tensor_.name = key;
    } else if (level() == kTensor && in_metadata_) {
      metadata_key_ = key;
    } else if (level() == kTensor) {
      field_ = field_of(key);
    }
  }

  void on_scalar(const JsonScalar& scalar) override {
    if (level() == 0) throw_damaged(where(), "not an object");
    if (level() == kRoot) fail("not an object");
    if (in_metadata_) {
      take_metadata(scalar);
    } else if (level() == kTensor) {
      take_field(scalar);
    } else if (field_ != Field::other) {
      take_number(scalar);
    }
  }

  void on_close() override {
    if (level() == kTensor && !in_metadata_) finish_tensor();
  }

  /// Names of tensors are compared when all are there.
  [[nodiscard]] bool are_keys_compared() const override { return level() != kRoot; }

  static Field field_of(const std::string& key) {
    if (key == "dtype") return Field::dtype;
    if (key == "shape") return Field::shape;
    return key == "data_offsets" ? Field::range : Field::other;
  }

  [[nodiscard]] std::string list_name() const {
    return field_ == Field::shape ? "shape" : "data_offsets";
  }

  void start_tensor() {
    field_ = Field::other;
    tensor_.dtype.clear();
    tensor_.shape.clear();
    range_.clear();
    has_dtype_ = has_shape_ = has_range_ = false;
  }

  void take_metadata(const JsonScalar& scalar) {
    if (scalar.type != Type::text) fail_in_metadata();
    header.metadata[metadata_key_] = *scalar.text;
  }

  void take_field(const JsonScalar& scalar) {
    if (field_ == Field::other) return;
    if (field_ != Field::dtype) fail(list_name() + ": not a list");
    if (scalar.type != Type::text) fail("dtype: not a text");
    tensor_.dtype = *scalar.text;
    has_dtype_ = true;
  }

  void take_number(const JsonScalar& scalar) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (scalar.type == Type::negative) fail(list_name() + ": a negative number");
    if (scalar.type != Type::natural || scalar.natural > kMost) {
      fail(list_name() + ": not a whole number within 64 bits");
    }
    Shape& numbers = field_ == Field::shape ? tensor_.shape : range_;
    numbers.push_back(static_cast<std::int64_t>(scalar.natural));
  }

  void finish_tensor() {
    if (!has_dtype_) fail("\"dtype\" is missing");
    if (!has_shape_) fail("\"shape\" is missing");
    if (!has_range_) fail("\"data_offsets\" is missing");
    if (range_.size() != 2 || range_[0] > range_[1]) fail("data_offsets is no range");
    tensor_.begin = static_cast<std::uint64_t>(range_[0]);
    tensor_.end = static_cast<std::uint64_t>(range_[1]);
    if (element_bits(tensor_.dtype) == 0) fail("unknown dtype");
    const auto bytes = tensor_bytes(tensor_.dtype, tensor_.shape);
    if (!bytes) fail("shape " + to_text(tensor_.shape) + " has no size in bytes");
    if (*bytes != tensor_.end - tensor_.begin) {
      fail(tensor_.dtype + " " + to_text(tensor_.shape) + " needs " + std::to_string(*bytes) +
           " bytes, its range has " + std::to_string(tensor_.end - tensor_.begin));
    }
    header.tensors.push_back(std::exchange(tensor_, {}));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_damaged(where(), "tensor \"" + tensor_.name + "\": " + what);
  }
  [[noreturn]] void fail_in_metadata() const {
    throw_damaged(where(), std::string(kMetadataKey) + "." + metadata_key_ + ": not a text");
  }

  TensorInfo tensor_;
  Shape range_;
  Field field_ = Field::other;
  std::string metadata_key_;
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_range_ = false;
};

}  // namespace

SafetensorsHeader parse_header_json(std::string_view text, const std::string& where) {
  HeaderEvents events(where);
  events.read(text);
  std::vector<const std::string*> names;
  names.reserve(events.header.tensors.size());
  for (const TensorInfo& tensor : events.header.tensors) names.push_back(&tensor.name);
  if (const std::string* twice = first_twice(std::move(names))) {
    throw_damaged(where, "key \"" + *twice + "\" twice");
  }
  return std::move(events.header);
}

}  // namespace lockstep::checkpoint
