#include "lockstep/checkpoint/format/json_events.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

/// Writes down what it hears: "{0 key [" and so on.
class Listener : public JsonEvents {
 public:
  Listener(int max_depth, const std::string& where) : JsonEvents(max_depth, where) {}
  std::string heard;

 private:
  void on_key(const std::string& key) override { heard += key + ":"; }
  void on_scalar(const JsonScalar& scalar) override {
    using Type = JsonScalar::Type;
    heard += scalar.type == Type::null       ? "n"
             : scalar.type == Type::boolean  ? (scalar.natural == 1 ? "T" : "F")
             : scalar.type == Type::natural  ? std::to_string(scalar.natural)
             : scalar.type == Type::negative ? "-"
             : scalar.type == Type::real     ? "r"
                                             : "'" + *scalar.text + "'";
    heard += "@" + std::to_string(level()) + " ";
  }
  void on_open(bool is_object) override {
    heard += (is_object ? "{" : "[") + std::to_string(level()) + " ";
  }
  void on_close() override { heard += "}" + std::to_string(level()) + " "; }
};

const std::string kWhere = "x.json";

std::string heard(const std::string& text) {
  Listener listener(3, kWhere);
  listener.read(text);
  return listener.heard;
}

/// Empty when the text is taken.
std::string fault_of(const std::string& text) {
  try {
    (void)heard(text);
    return "";
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5004");
    EXPECT_EQ(error.problems()[0].where, kWhere);
    return error.problems()[0].what;
  }
}

TEST(JsonEvents, EveryValueComesWithItsLevel) {
  EXPECT_EQ(heard(R"({"a":1,"b":[null,true,-5,1.5,"t"],"c":{}})"),
            "{1 a:1@1 b:[2 n@2 T@2 -@2 r@2 't'@2 }2 c:{2 }2 }1 ");
  EXPECT_EQ(heard("7"), "7@0 ");
}

TEST(JsonEvents, TextThatIsNotJsonIsRefusedWithItsPlace) {
  EXPECT_EQ(fault_of("{\"a\":1"), "not valid JSON at byte 7");
  EXPECT_EQ(fault_of("{} x"), "not valid JSON at byte 4");
  EXPECT_EQ(fault_of(std::string("{}\0", 3)), "not JSON: zero at byte 2");
  EXPECT_EQ(fault_of("1e999"), "a number out of range");
  EXPECT_NE(fault_of("\"\xff\""), "");
  EXPECT_NE(fault_of(R"("\ud800")"), "");
  EXPECT_NE(fault_of(""), "");
}

TEST(JsonEvents, NestingBeyondTheLimitIsRefused) {
  EXPECT_EQ(fault_of("[[[]]]"), "");
  EXPECT_EQ(fault_of("[[[[]]]]"), "JSON nested too deep");
  EXPECT_EQ(fault_of(std::string(1'000'000, '[')), "JSON nested too deep");
}

TEST(JsonEvents, AKeyTwiceInOneObjectIsRefused) {
  EXPECT_EQ(fault_of(R"({"a":{"k":1},"b":{"k":1}})"), "");
  EXPECT_EQ(fault_of(R"({"a":{"k":1,"k":2}})"), "key \"k\" twice");
  EXPECT_EQ(fault_of(R"({"a":{"b":{}},"a":1})"), "key \"a\" twice");
}

TEST(JsonEvents, ANameThatStandsTwiceIsFound) {
  const std::string a = "a";
  const std::string b = "b";
  const std::string b_again = "b";
  EXPECT_EQ(first_twice({&b, &a}), nullptr);
  ASSERT_NE(first_twice({&b, &a, &b_again}), nullptr);
  EXPECT_EQ(*first_twice({&b, &a, &b_again}), "b");
}

}  // namespace
}  // namespace lockstep::checkpoint
