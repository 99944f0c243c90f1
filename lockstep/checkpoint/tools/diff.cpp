#include "lockstep/checkpoint/tools/diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "lockstep/checkpoint/tools/chunks.h"
#include "lockstep/checkpoint/tools/elements.h"

namespace lockstep::checkpoint {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kChunkBytes = 4U << 20;  // whole blocks of our own format
constexpr std::size_t kBlock = 2048;             // elements

bool are_same(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// What a pass over some elements has found.
struct Found {
  std::uint64_t differing = 0;
  std::uint64_t nan_on_one_side = 0;
  double max_abs = 0;
  double max_rel = 0;
  double sum_abs = 0;

  void merge(const Found& other) {
    differing += other.differing;
    nan_on_one_side += other.nan_on_one_side;
    max_abs = std::max(max_abs, other.max_abs);
    max_rel = std::max(max_rel, other.max_rel);
    sum_abs += other.sum_abs;
  }

  void add_distance(double distance, double a, double b) {
    max_abs = std::max(max_abs, distance);
    sum_abs += distance;
    const double size = std::max(std::abs(a), std::abs(b));
    max_rel = std::max(max_rel, std::isinf(distance) ? distance : distance / size);
  }
};

/// Two numbers whose bits are known to differ, or whose types do.
void add_pair(double a, double b, bool is_one_type, Found& found) {
  if (a == b) {
    found.differing += is_one_type ? 1U : 0U;  // zeros of two signs
  } else if (std::isnan(a) && std::isnan(b)) {
    found.differing += is_one_type ? 1U : 0U;
  } else if (std::isnan(a) || std::isnan(b)) {
    ++found.differing;
    ++found.nan_on_one_side;
  } else {
    ++found.differing;
    found.add_distance(std::abs(a - b), a, b);
  }
}

/// Elements of one type, `width` bytes each.
void compare_block(ElementKind kind, Bytes a, Bytes b, Found& found) {
  const std::size_t width = element_bytes(kind);
  std::array<double, kBlock> values_a;
  std::array<double, kBlock> values_b;
  const std::size_t count = a.size() / width;
  to_doubles(kind, a, std::span(values_a).first(count));
  to_doubles(kind, b, std::span(values_b).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(a.data() + i * width, b.data() + i * width, width) == 0) continue;
    add_pair(values_a[i], values_b[i], true, found);
  }
}

/// 64-bit integers may differ by less than a double tells.
template <typename Integer>
void compare_integers(Bytes a, Bytes b, Found& found) {
  for (std::size_t at = 0; at < a.size(); at += sizeof(Integer)) {
    Integer one = 0;
    Integer other = 0;
    std::memcpy(&one, a.data() + at, sizeof one);
    std::memcpy(&other, b.data() + at, sizeof other);
    if (one == other) continue;
    const auto [low, high] = std::minmax(one, other);
    const std::uint64_t distance =
        static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    ++found.differing;
    found.add_distance(static_cast<double>(distance), static_cast<double>(one),
                       static_cast<double>(other));
  }
}

/// Elements that are no numbers.
void compare_bytes(std::size_t width, Bytes a, Bytes b, Found& found) {
  for (std::size_t at = 0; at < a.size(); at += width) {
    found.differing += std::memcmp(a.data() + at, b.data() + at, width) != 0 ? 1U : 0U;
  }
}

/// Two tensors of one shape.
class Pair {
 public:
  Pair(const TensorSource& a, std::size_t index_a, const TensorSource& b, std::size_t index_b)
      : a_(a),
        b_(b),
        index_a_(index_a),
        index_b_(index_b),
        kind_a_(element_kind(tensor_a().dtype)),
        kind_b_(element_kind(tensor_b().dtype)),
        is_one_type_(tensor_a().dtype == tensor_b().dtype) {}

  [[nodiscard]] TensorDiff compare(std::string name, int threads) const {
    TensorDiff diff;
    diff.name = std::move(name);
    diff.are_numbers = kind_a_ && kind_b_;
    diff.elements = 1;
    for (const std::int64_t dim : tensor_a().shape) {
      diff.elements *= static_cast<std::uint64_t>(dim);
    }
    Found all;
    if (is_one_type_ || diff.are_numbers) {
      all = compare_chunks(threads);
    } else {
      all.differing = diff.elements;  // two types that cannot be compared
    }
    diff.are_bits_equal = is_one_type_ && all.differing == 0;
    diff.differing = all.differing;
    diff.nan_on_one_side = all.nan_on_one_side;
    diff.max_abs = all.max_abs;
    diff.max_rel = all.max_rel;
    if (diff.elements > 0) diff.mean_abs = all.sum_abs / static_cast<double>(diff.elements);
    return diff;
  }

 private:
  struct Buffers {
    std::vector<std::byte> a;
    std::vector<std::byte> b;
  };

  [[nodiscard]] const StoredTensor& tensor_a() const { return a_.tensors()[index_a_]; }
  [[nodiscard]] const StoredTensor& tensor_b() const { return b_.tensors()[index_b_]; }

  /// Chunks have the same elements on both sides; where elements are no numbers, types are one.
  [[nodiscard]] Found compare_chunks(int threads) const {
    const std::uint64_t bytes_a = tensor_a().bytes();
    const std::uint64_t width_a = kind_a_ ? element_bytes(*kind_a_) : 1;
    const std::uint64_t width_b = kind_b_ ? element_bytes(*kind_b_) : 1;
    const std::uint64_t units = kChunkBytes / std::max(width_a, width_b);
    const std::uint64_t chunks = (bytes_a / width_a + units - 1) / units;
    std::vector<Found> found(chunks);  // merged in their order whoever makes them
    std::vector<Buffers> buffers(static_cast<std::size_t>(workers_of(chunks, threads)));
    for_each_chunk(chunks, threads, [&](int worker, std::uint64_t chunk) {
      const std::uint64_t count = std::min(units, bytes_a / width_a - chunk * units);
      auto& [a, b] = buffers[static_cast<std::size_t>(worker)];
      a.resize(count * width_a);
      b.resize(count * width_b);
      a_.read(index_a_, chunk * units * width_a, a);
      b_.read(index_b_, chunk * units * width_b, b);
      compare_chunk(a, b, found[chunk]);
    });
    Found all;
    for (const Found& part : found) all.merge(part);
    return all;
  }

  void compare_chunk(Bytes a, Bytes b, Found& found) const {
    if (is_one_type_ && are_same(a, b)) return;
    if (!kind_a_ || !kind_b_) {
      const auto bits = static_cast<std::size_t>(element_bits(tensor_a().dtype));
      compare_bytes(bits % 8 == 0 ? bits / 8 : 1, a, b, found);
    } else if (is_one_type_ && *kind_a_ == ElementKind::i64) {
      compare_integers<std::int64_t>(a, b, found);
    } else if (is_one_type_ && *kind_a_ == ElementKind::u64) {
      compare_integers<std::uint64_t>(a, b, found);
    } else {
      compare_blocks(a, b, found);
    }
  }

  void compare_blocks(Bytes a, Bytes b, Found& found) const {
    const std::size_t width_a = element_bytes(*kind_a_);
    const std::size_t width_b = element_bytes(*kind_b_);
    while (!a.empty()) {
      const std::size_t count = std::min(kBlock, a.size() / width_a);
      const Bytes block_a = a.first(count * width_a);
      const Bytes block_b = b.first(count * width_b);
      if (!is_one_type_) {
        compare_types(block_a, block_b, count, found);
      } else if (!are_same(block_a, block_b)) {
        compare_block(*kind_a_, block_a, block_b, found);
      }
      a = a.subspan(block_a.size());
      b = b.subspan(block_b.size());
    }
  }

  void compare_types(Bytes a, Bytes b, std::size_t count, Found& found) const {
    std::array<double, kBlock> values_a;
    std::array<double, kBlock> values_b;
    to_doubles(*kind_a_, a, std::span(values_a).first(count));
    to_doubles(*kind_b_, b, std::span(values_b).first(count));
    for (std::size_t i = 0; i < count; ++i) add_pair(values_a[i], values_b[i], false, found);
  }

  const TensorSource& a_;
  const TensorSource& b_;
  std::size_t index_a_;
  std::size_t index_b_;
  std::optional<ElementKind> kind_a_;
  std::optional<ElementKind> kind_b_;
  bool is_one_type_;
};

/// Names and aliases of a source in its order, and where each is.
struct Names {
  explicit Names(const TensorSource& source) {
    const auto tensors = source.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) add(tensors[i].name, i);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (const std::string& alias : tensors[i].aliases) add(alias, i);
    }
  }
  void add(const std::string& name, std::size_t index) {
    if (places.emplace(name, index).second) order.push_back(&name);
  }

  std::vector<const std::string*> order;
  std::unordered_map<std::string_view, std::size_t> places;
};

struct Common {
  const std::string* name;
  std::size_t a;
  std::size_t b;
};

/// Names that both have, each pair of tensors once; notes the others in `diff`.
std::vector<Common> find_common(const TensorSource& a, const TensorSource& b,
                                CheckpointDiff& diff) {
  const Names names_a(a);
  const Names names_b(b);
  std::vector<Common> common;
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const std::string* name : names_a.order) {
    const auto there = names_b.places.find(*name);
    if (there == names_b.places.end()) {
      diff.only_in_a.push_back(*name);
      continue;
    }
    const std::size_t here = names_a.places.at(*name);
    if (seen.emplace(here, there->second).second) common.push_back({name, here, there->second});
  }
  for (const std::string* name : names_b.order) {
    if (!names_a.places.contains(*name)) diff.only_in_b.push_back(*name);
  }
  return common;
}

}  // namespace

bool CheckpointDiff::is_same() const {
  return only_in_a.empty() && only_in_b.empty() && forms.empty() &&
         std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorDiff& tensor) { return tensor.are_bits_equal; });
}

CheckpointDiff diff(const TensorSource& a, const TensorSource& b, const DiffOptions& options) {
  CheckpointDiff result;
  const std::vector<Common> common = find_common(a, b, result);
  std::uint64_t bytes_all = 0;
  for (const Common& pair : common) bytes_all += a.tensors()[pair.a].bytes();
  std::uint64_t bytes_done = 0;
  for (const Common& pair : common) {
    const StoredTensor& one = a.tensors()[pair.a];
    const StoredTensor& other = b.tensors()[pair.b];
    if (one.dtype != other.dtype || one.shape != other.shape) {
      result.forms.push_back({*pair.name, one.dtype, other.dtype, one.shape, other.shape});
    }
    if (one.shape == other.shape) {
      result.tensors.push_back(Pair(a, pair.a, b, pair.b).compare(*pair.name, options.threads));
    }
    bytes_done += one.bytes();
    if (options.progress) options.progress(bytes_done, bytes_all);
  }
  return result;
}

}  // namespace lockstep::checkpoint
