#include "lockstep/parallel/strategies/sync_batch_norm.h"

#include "lockstep/parallel/sync_batch_norm.h"

namespace lockstep::parallel {

void apply_sync_batch_norm(const BuildSetting& setting, SessionParts& parts) {
  if (setting.groups.data.size() == 1) return;
  parts.blocks_waited_s = std::make_shared<double>(0);
  share_statistics(*parts.model, setting.groups.statistics, parts.blocks_waited_s);
}

}  // namespace lockstep::parallel
