// What the data of a run are on this host, so that hosts can find out that theirs differ.
#pragma once
#include <string>

#include "lockstep/config/run_config.h"

namespace lockstep::rundir {

/// SHA-256, in hex, over the names and sizes of the files of data.train and data.eval, in order of
/// their names; empty where there are none (synthetic data, the output of a command). Their bytes
/// are not read: a terabyte would take an hour.
[[nodiscard]] std::string data_manifest(const config::DataSection& data);

}  // namespace lockstep::rundir
