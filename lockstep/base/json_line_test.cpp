#include "lockstep/base/json_line.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {
namespace {

TEST(JsonLine, WritesWhatTheLibraryWrites) {
  const std::string odd = "quote \" backslash \\ line\n \xc3\xa9 \x01";
  JsonLine line;
  line.open_object().member("a", std::int64_t{-7}).member("b", 0.1).member("c", true);
  line.key("d").open_array().value(1e-7).value(2.0).open_object().close_object().close_array();
  line.key("e").open_array().close_array().member("f", std::string_view(odd)).member("g", false);
  line.key("h").raw("{\"x\":1}").close_object();
  const auto read = nlohmann::ordered_json::parse(line.take());
  const nlohmann::ordered_json expected{{"a", -7},
                                        {"b", 0.1},
                                        {"c", true},
                                        {"d", {1e-7, 2.0, nlohmann::ordered_json::object()}},
                                        {"e", nlohmann::ordered_json::array()},
                                        {"f", odd},
                                        {"g", false},
                                        {"h", {{"x", 1}}}};
  EXPECT_EQ(read, expected);
}

TEST(JsonLine, NumbersReadBackAsTheyWere) {
  for (const double number :
       {0.1 + 0.2, 1.0 / 3, 5e-324, std::numeric_limits<double>::max(), -0.0, 1e22, 123456789.0}) {
    JsonLine line;
    const auto read = nlohmann::json::parse(line.value(number).take());
    EXPECT_EQ(read.get<double>(), number);
  }
}

TEST(JsonLine, WhatIsNotFiniteIsNullAndBadUtf8IsReplaced) {
  JsonLine line;
  line.open_array().value(std::numeric_limits<double>::quiet_NaN());
  line.value(std::numeric_limits<double>::infinity()).value(std::string_view("\xff"));
  const auto read = nlohmann::json::parse(line.close_array().take());
  EXPECT_TRUE(read[0].is_null());
  EXPECT_TRUE(read[1].is_null());
  EXPECT_EQ(read[2], "\xef\xbf\xbd");
}

}  // namespace
}  // namespace lockstep
