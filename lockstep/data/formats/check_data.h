// What is wrong with the data of a run, as far as it shows before anything is started.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"

namespace lockstep::data {

/// A fault and the exit code of a run that ends with it.
struct DataFault {
  Exit exit = Exit::usage;
  Problem problem;  // `where` is the key at fault
};

struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Whether the kind of data and the model belong together: images for images, bytes for tokens.
[[nodiscard]] std::vector<Problem> check_data_kind(const config::RunConfig& config);

/// Whether `model` takes images of this shape. \param key that names them, "data.train".
[[nodiscard]] std::vector<Problem> check_image_shape(const config::ModelSection& model,
                                                     const std::string& key,
                                                     const ImageShape& found);

/// Whether `bytes` of text leave a sample for training and, where they hold some out, for
/// evaluation. \param train whether they are those of data.train.
[[nodiscard]] std::vector<Problem> check_text_size(std::int64_t bytes,
                                                   const config::DataSection& data, bool train);

/// Every fault that names, headers and sizes of the files tell. Reads no sample and runs no
/// program, so that an empty answer is no promise: opening the data finds the rest.
[[nodiscard]] std::vector<DataFault> check_data(const config::RunConfig& config);

}  // namespace lockstep::data
