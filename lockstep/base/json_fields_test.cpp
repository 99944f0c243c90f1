#include "lockstep/base/json_fields.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

JsonFields read(std::string_view text) { return {text, {"LS-7051", "a test"}}; }

std::string complaint(const auto& action) {
  try {
    action();
  } catch (const BadData& error) {
    return error.problems().at(0).what;
  }
  return "no complaint";
}

TEST(JsonFields, ReadsEachTypeAndTheDefaultsOfMissingFields) {
  const JsonFields fields =
      read(R"({"i":-3,"n":0.5,"nan":null,"b":true,"t":"x","o":{"i":7},"a":[1,2],"d":[0.5,null],)"
           R"("s":["x","y"],"l":[{"i":1},{"i":2}]})");
  EXPECT_EQ(fields.integer("i"), -3);
  EXPECT_EQ(fields.number("n"), 0.5);
  EXPECT_EQ(fields.number("i"), -3.0);
  EXPECT_TRUE(std::isnan(fields.number("nan")));
  EXPECT_TRUE(fields.flag_or("b", false));
  EXPECT_EQ(fields.text("t"), "x");
  EXPECT_EQ(fields.object("o").integer("i"), 7);
  EXPECT_EQ(fields.integers("a"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(fields.numbers("d").at(0), 0.5);
  EXPECT_EQ(fields.texts("s"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(fields.objects("l").at(1).integer("i"), 2);
  EXPECT_EQ(fields.integer_or("none", 9), 9);
  EXPECT_EQ(fields.number_or("none", 0.25), 0.25);
  EXPECT_TRUE(fields.flag_or("none", true));
}

TEST(JsonFields, NamesTheFieldThatIsWrong) {
  const JsonFields fields = read(R"({"i":1.5,"big":18446744073709551615,"o":{"x":[1,"y"]},"t":3})");
  EXPECT_EQ(complaint([&] { (void)fields.integer("i"); }), "field 'i' is not an integer");
  EXPECT_EQ(complaint([&] { (void)fields.integer("big"); }), "field 'big' is out of range");
  EXPECT_EQ(complaint([&] { (void)fields.integer("none"); }), "has no field 'none'");
  EXPECT_EQ(complaint([&] { (void)fields.text("t"); }), "field 't' is not a text");
  EXPECT_EQ(complaint([&] { (void)fields.object("t"); }), "field 't' is not an object");
  EXPECT_EQ(complaint([&] { (void)fields.flag_or("t", true); }), "field 't' is not true or false");
  EXPECT_EQ(complaint([&] { (void)fields.object("o").integers("x"); }),
            "field 'o.x' is not an integer");
  EXPECT_EQ(complaint([&] { (void)fields.object("o").integer("y"); }), "has no field 'o.y'");
  EXPECT_EQ(complaint([&] { (void)fields.object("o").texts("x"); }),
            "field 'o.x' is not an array of texts");
  EXPECT_EQ(complaint([&] { (void)fields.object("o").objects("x"); }),
            "field 'o.x' is not an array of objects");
}

TEST(JsonFields, HostileTextIsBadDataAndNothingElse) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("nul"), std::string("{} {}"),
        std::string("{\"a\":\"\xff\"}"), std::string(200000, '['), std::string("\0{}", 3)}) {
    EXPECT_EQ(complaint([&] { (void)read(text); }), "is not JSON") << text.substr(0, 20);
  }
  EXPECT_EQ(complaint([] { (void)read("[1]"); }), "is a JSON array, not an object");
}

TEST(JsonFields, ALineNeverBreaksAndReplacesBadBytes) {
  EXPECT_EQ(to_line({{"a", "x\ny"}, {"b", std::nan("")}}), R"({"a":"x\ny","b":null})");
  EXPECT_EQ(to_line({{"a", "\xff"}}), "{\"a\":\"\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace lockstep
