#include "lockstep/parallel/plan/layout.h"

#include "lockstep/base/error.h"

namespace lockstep::parallel {

std::string_view to_text(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  throw Bug(__FILE__, __LINE__, "a way to recompute without a name");
}

std::string_view to_text(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::none:
      return "none";
    case PipelineSchedule::gpipe:
      return "gpipe";
    case PipelineSchedule::one_f_one_b:
      return "1f1b";
    case PipelineSchedule::interleaved:
      return "interleaved";
  }
  throw Bug(__FILE__, __LINE__, "a schedule without a name");
}

std::string_view to_text(Offload offload) {
  switch (offload) {
    case Offload::none:
      return "none";
    case Offload::cpu:
      return "cpu";
    case Offload::nvme:
      return "nvme";
  }
  throw Bug(__FILE__, __LINE__, "a place to offload to without a name");
}

}  // namespace lockstep::parallel
