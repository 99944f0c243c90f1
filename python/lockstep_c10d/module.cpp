// The Python extension lockstep_c10d._C: makes backends of torch.distributed over shared memory.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include <chrono>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm_backend.h"

namespace py = pybind11;

namespace lockstep::comm {
namespace {

/// Threads of a backend may be in Python code of a future's callback when it goes.
class PythonBackend : public ShmBackend {
 public:
  using ShmBackend::ShmBackend;
  ~PythonBackend() override {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      const py::gil_scoped_release release;
      shutdown();
    } else {
      shutdown();
    }
  }
};

std::mutex backends_mutex;
std::vector<c10::weak_intrusive_ptr<c10d::Backend>> backends;

c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int size, std::chrono::milliseconds timeout,
                                         const std::string& name) {
  c10::intrusive_ptr<c10d::Backend> backend;
  try {
    backend = c10::make_intrusive<PythonBackend>(*store, rank, size, timeout, name);
  } catch (const Error& error) {
    TORCH_CHECK_WITH(DistBackendError, false, error.what());
  }
  const std::lock_guard lock(backends_mutex);
  std::erase_if(backends, [](const auto& known) { return known.expired(); });
  backends.emplace_back(backend);
  return backend;
}

/// A process that ends without destroy_process_group() must not look like one that died.
void leave_all() {
  std::vector<c10::weak_intrusive_ptr<c10d::Backend>> known;
  {
    const std::lock_guard lock(backends_mutex);
    known.swap(backends);
  }
  for (const auto& weak : known) {
    if (const auto backend = weak.lock()) backend->shutdown();
  }
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout"), py::arg("name"), py::call_guard<py::gil_scoped_release>());
  module.def("leave_all", &leave_all, py::call_guard<py::gil_scoped_release>());
}

}  // namespace lockstep::comm
