#include "lockstep/metrics/report_line.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/support/sample_reports.h"

namespace lockstep::metrics {
namespace {

TEST(ReportLine, EveryKindArrivesAsWhatItWas) {
  for (const ReportLine& sent :
       {ReportLine(sample::step(3, 10)), ReportLine(sample::eval(3, 0.5)),
        ReportLine(Note{"saved \"x\"\n"}), ReportLine(sample::summary())}) {
    const std::string line = to_json_text(sent);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const ReportLine got = read_report_line(line);
    EXPECT_EQ(got.index(), sent.index());
    EXPECT_EQ(to_json_text(got), line);
  }
}

TEST(ReportLine, WhatIsNoReportIsBadData) {
  for (const char* line : {"", "hello", "{}", "[]", R"({"note":3})", R"({"summary":{}})",
                           R"({"summary":"done"})", R"({"eval":[]})", R"({"step":"x"})"}) {
    EXPECT_THROW((void)read_report_line(line), BadData) << line;
  }
}

}  // namespace
}  // namespace lockstep::metrics
