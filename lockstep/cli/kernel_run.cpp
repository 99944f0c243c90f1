#include "lockstep/cli/kernel_run.h"

#include <filesystem>

#include "lockstep/base/run_dir.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/topology/reference_model.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

std::vector<KernelPoint> time_kernels(const Context& context, const KernelRequest& request,
                                      int ranks, const std::string& dir,
                                      const std::function<void(const KernelPoint&)>& on_point) {
  const fs::path folder = make_run_dir(dir, "kernels");
  const std::string file = (folder / "request.json").string();
  metrics::write_whole_file(file, lockstep::to_json_text(request) + "\n");
  std::vector<KernelPoint> points;
  launch::LocalJobOptions options;
  options.command = {find_worker(context), "bench-kernels", "--job", file, "--json"};
  options.nproc_per_node = ranks;
  options.log_dir = (folder / "logs").string();
  options.on_report = [&](const std::string& line) {
    points.push_back(kernel_point_from(line));
    on_point(points.back());
  };
  const launch::LocalJobResult result = launch::run_local_job(options);
  if (result.exit != Exit::ok) fail_bench(counted(ranks, "rank"), result, options.log_dir);
  return points;
}

double rate_of(const KernelPoint& point) {
  const double bytes = point.type == config::Dtype::fp32 ? 4 : 2;
  const double flops = flops_of(point);
  const double work = flops > 0 ? flops : 2 * bytes * point.size[0] * point.size[1];
  return point.forward_s > 0 && !is_step(point.kernel) ? work / point.forward_s / 1e9 : 0;
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> all;
  for (const KernelInfo& info : lockstep::kernels()) all.push_back(info.kernel);
  return all;
}

}  // namespace lockstep::cli
