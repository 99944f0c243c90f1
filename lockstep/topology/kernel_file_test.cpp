#include "lockstep/topology/kernel_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

KernelRates some_rates() {
  KernelRates rates = typical_rates();
  rates.source = "measured on this machine, 2026-11-30";
  rates.cpu_model = "A CPU with spaces";
  return rates;
}

std::string complaint(const std::string& text) {
  try {
    (void)rates_from(text, "kernels.txt");
  } catch (const BadData& error) {
    return error.problems().front().what;
  }
  return "";
}

TEST(KernelFile, ReadsWhatItWrote) {
  const KernelRates rates = some_rates();
  const KernelRates read = rates_from(to_file_text(rates), "kernels.txt");
  EXPECT_EQ(read.source, rates.source);
  EXPECT_EQ(read.cpu_model, rates.cpu_model);
  EXPECT_EQ(read.cores, rates.cores);
  ASSERT_EQ(read.busy.size(), rates.busy.size());
  for (std::size_t i = 0; i < read.busy.size(); ++i) {
    EXPECT_EQ(read.busy[i].ranks, rates.busy[i].ranks);
    ASSERT_EQ(read.busy[i].points.size(), rates.busy[i].points.size());
    for (std::size_t p = 0; p < read.busy[i].points.size(); ++p) {
      EXPECT_EQ(read.busy[i].points[p].size, rates.busy[i].points[p].size);
      EXPECT_NEAR(read.busy[i].points[p].backward_s, rates.busy[i].points[p].backward_s, 1e-9);
    }
  }
  EXPECT_EQ(read.exchange.size(), rates.exchange.size());
  EXPECT_EQ(to_file_text(read), to_file_text(rates));
}

TEST(KernelFile, SaysWhichLineIsWrong) {
  EXPECT_THAT(complaint(""), HasSubstr("line 1 does not begin with"));
  const std::string head = "lockstep kernels 1\ncores 2\n";
  EXPECT_THAT(complaint(head), HasSubstr("cut short"));
  EXPECT_THAT(complaint(head + "end\n"), HasSubstr("lacks fp32 points of linear"));
  EXPECT_THAT(complaint(head + "end\nend of it\n"), HasSubstr("behind the end"));
  EXPECT_THAT(complaint(head + "linear fp32 1 1 1 1 1 1\n"), HasSubstr("line 3 is a point before"));
  EXPECT_THAT(complaint(head + "ranks 1\nlinaer fp32 1 1 1 1 1 1\n"), HasSubstr("'linaer'"));
  EXPECT_THAT(complaint(head + "ranks 1\nlinear fp31 1 1 1 1 1 1\n"), HasSubstr("'fp31'"));
  EXPECT_THAT(complaint(head + "ranks 1\nlinear fp32 1 1 1 1 1\n"),
              HasSubstr("line 4 has a number"));
  EXPECT_THAT(complaint(head + "ranks 1\nlinear fp32 0 1 1 1 1 1\n"), HasSubstr("out of range"));
  EXPECT_THAT(complaint(head + "ranks 1\nlinear fp32 1 1 1 nan 1 1\n"), HasSubstr("out of range"));
}

TEST(KernelFile, IsRefusedWhereverItWasCut) {
  const std::string whole = to_file_text(some_rates());
  for (std::size_t length = 0; length + 1 < whole.size(); length += 97) {
    EXPECT_NE(complaint(whole.substr(0, length)), "") << length;
  }
  const std::size_t line = whole.rfind("all_reduce");
  EXPECT_NE(complaint(whole.substr(0, line)), "") << "at the end of a line";
}

TEST(KernelFile, PointsAndRequestsSurviveTheirJson) {
  const KernelPoint point = some_rates().busy.front().points.front();
  const KernelPoint read = kernel_point_from(to_json_text(point));
  EXPECT_EQ(read.kernel, point.kernel);
  EXPECT_EQ(read.type, point.type);
  EXPECT_NEAR(read.forward_s, point.forward_s, 1e-12);
  const KernelRequest request{{Kernel::step, Kernel::loss}, {config::Dtype::fp16}, 0.5};
  const KernelRequest same = kernel_request_from(to_json_text(request));
  EXPECT_EQ(same.kernels, request.kernels);
  EXPECT_EQ(same.types, request.types);
  EXPECT_EQ(same.seconds_a_point, 0.5);
  EXPECT_THROW((void)kernel_request_from("{\"kernels\":[\"x\"]}"), BadData);
  EXPECT_THROW((void)kernel_point_from("{}"), BadData);
}

class KernelFolder : public testing::Test {
 protected:
  KernelFolder() {
    std::filesystem::create_directories(folder_);
    ::setenv("LOCKSTEP_CACHE", folder_.c_str(), 1);
    host_.cpu_model = "A CPU";
    host_.cores = 2;
  }
  ~KernelFolder() override {
    ::unsetenv("LOCKSTEP_CACHE");
    std::filesystem::remove_all(folder_);
  }
  std::string folder_ = testing::TempDir() + "kernel-file-test/of/this/process";
  Host host_;
};

TEST_F(KernelFolder, KeepsAFileForEachKindOfHost) {
  EXPECT_FALSE(read_rates(rates_file(host_)).has_value());
  write_rates(rates_file(host_), some_rates());
  const auto read = read_rates(rates_file(host_));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->cpu_model, some_rates().cpu_model);
  Host other = host_;
  other.cores = 64;
  EXPECT_FALSE(read_rates(rates_file(other)).has_value());
}

TEST_F(KernelFolder, SaysWhereItCannotWrite) {
  std::ofstream(folder_ + "/file") << "not a folder";
  EXPECT_THROW(write_rates(folder_ + "/file/kernels.txt", some_rates()), EnvironmentFault);
  EXPECT_THROW(require_rates_file(folder_ + "/file/kernels.txt"), EnvironmentFault);
  EXPECT_NO_THROW(require_rates_file(rates_file(host_)));
  EXPECT_FALSE(std::filesystem::exists(rates_file(host_))) << "it only looks";
}

}  // namespace
}  // namespace lockstep
