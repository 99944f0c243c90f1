#include "lockstep/model/stats/gpt_of_size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "lockstep/base/error.h"

namespace lockstep::model {
namespace {

constexpr double kFewest = 1e5;
constexpr double kMost = 1e14;
constexpr double kTextVocabularyFrom = 60e6;
constexpr double kWithin = 0.005;  // of the parameters asked for

struct Rung {
  double parameters;
  double layers;
  double width;
};
constexpr auto kLadder = std::to_array<Rung>({{125e6, 12, 768},
                                              {350e6, 24, 1024},
                                              {760e6, 24, 1536},
                                              {1.3e9, 24, 2048},
                                              {2.7e9, 32, 2560},
                                              {6.7e9, 32, 4096},
                                              {13e9, 40, 5120},
                                              {175e9, 96, 12288}});

double between(double from, double to, double share) { return from * std::pow(to / from, share); }

/// On the ladder, and beyond its ends as between its first or last two rungs; below, the width
/// alone would hardly shrink, so both do by the cube root.
Rung interpolated(double parameters) {
  if (parameters < kLadder.front().parameters) {
    const double scale = std::cbrt(parameters / kLadder.front().parameters);
    return {parameters, kLadder.front().layers * scale, kLadder.front().width * scale};
  }
  std::size_t above = 1;
  while (above + 1 < kLadder.size() && kLadder[above].parameters < parameters) ++above;
  const Rung& low = kLadder[above - 1];
  const Rung& high = kLadder[above];
  const double share =
      std::log(parameters / low.parameters) / std::log(high.parameters / low.parameters);
  return {parameters, between(low.layers, high.layers, share),
          between(low.width, high.width, share)};
}

struct HeadShape {
  std::int64_t width = 64;
  std::int64_t together = 1;  // heads come in so many, so that tensor ranks can share them
};

HeadShape head_shape(double width) {
  if (width < 1024) return {64, 1};
  if (width < 1792) return {64, 4};
  return {128, 8};
}

std::int64_t nearest_multiple(double number, std::int64_t unit) {
  const double units = std::round(number / static_cast<double>(unit));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(units)) * unit;
}

/// Depths that pipelines of a few stages share evenly.
std::int64_t depth(double layers) {
  if (layers < 24) return nearest_multiple(layers, 1);
  return nearest_multiple(layers, layers < 64 ? 4 : 8);
}

/// What the feed-forward width does not change: attention, norms, biases, tables.
double fixed_parameters(const Architecture& a) {
  const auto width = static_cast<double>(a.width);
  const auto layers = static_cast<double>(a.layers);
  const auto rows = static_cast<double>(a.vocabulary + a.max_positions);
  return rows * width + layers * (4 * width * width + 9 * width) + 2 * width;
}

/// The largest power of two up to 128 whose steps keep within kWithin.
std::int64_t feed_forward_unit(const Architecture& a, double parameters) {
  std::int64_t unit = 128;
  const double per_column = static_cast<double>(a.layers) * (2 * static_cast<double>(a.width) + 1);
  while (unit > 1 && static_cast<double>(unit) * per_column > kWithin * parameters) unit /= 2;
  return unit;
}

/// "7e9 parameters", "0.125e9 parameters"
std::string name_of(double parameters) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", parameters / 1e9);
  return std::string(text.data()) + "e9 parameters";
}

}  // namespace

Architecture gpt_of_size(double parameters) {
  if (!(parameters >= kFewest && parameters <= kMost)) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%g", parameters);
    throw UsageError(
        {{"LS-6025", "--params", std::string("no GPT has ") + text.data() + " parameters",
          "use a number from 1e5 to 1e14, such as 7e9"}});
  }
  const Rung rung = interpolated(parameters);
  const HeadShape heads = head_shape(rung.width);
  const bool text = parameters >= kTextVocabularyFrom;
  Architecture a;
  a.name = name_of(parameters);
  a.width = nearest_multiple(rung.width, heads.width * heads.together);
  a.head_width = heads.width;
  a.heads = a.width / heads.width;
  a.kv_heads = a.heads;
  a.vocabulary = text ? 50257 : 256;
  a.max_positions = text ? 2048 : 256;
  a.default_sequence = a.max_positions;
  a.dropout = 0.1;
  const auto width = static_cast<double>(a.width);
  const double in_layers = parameters - fixed_parameters(a);  // a.layers is 0
  a.layers = depth(in_layers / (12 * width * width + 13 * width));
  const double in_feed_forward = parameters - fixed_parameters(a);
  const double columns = in_feed_forward / static_cast<double>(a.layers) / (2 * width + 1);
  a.feed_forward = nearest_multiple(columns, feed_forward_unit(a, parameters));
  return a;
}

}  // namespace lockstep::model
