// What both kinds of manifest for Kubernetes have in common.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "lockstep/starters/submit.h"
#include "lockstep/starters/template_text.h"

namespace lockstep::starters {

/// "name", "image", "command", "variables", "resources", "volumes" and "objects" (a ConfigMap,
/// and where there are several pods a Secret), for a template in which a container's keys stand 8 +
/// `deeper` blanks in. \param variables of the launcher in each pod, beside those of the meeting.
/// \param leader the pod at which launchers meet; unused where there is one pod.
[[nodiscard]] Filling kubernetes_filling(
    const Submission& job, const std::string& leader,
    const std::vector<std::pair<std::string, std::string>>& variables, std::size_t deeper);

}  // namespace lockstep::starters
