#include "lockstep/base/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

TEST(Base64, GivesTheTextsOfRfc4648AndReadsThemBack) {
  const std::vector<std::pair<std::string, std::string>> pairs{{"", ""},
                                                               {"f", "Zg=="},
                                                               {"fo", "Zm8="},
                                                               {"foo", "Zm9v"},
                                                               {"foob", "Zm9vYg=="},
                                                               {"fooba", "Zm9vYmE="},
                                                               {"foobar", "Zm9vYmFy"},
                                                               {"\xff\xfe\xfb", "//77"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(from_base64(to_base64(all)), all);
}

TEST(Base64, RefusesWhatItNeverGives) {
  for (const char* text :
       {"Z", "Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm-v", "Zh==", "Zm9=", "Z=9v"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep
