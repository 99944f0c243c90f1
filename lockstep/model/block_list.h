// A model held as its list of blocks, with the cross entropy that all families share.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/model/model.h"

namespace lockstep::model {

class BlockList : public Model {
 public:
  void add(std::string name, std::shared_ptr<Block> block) {
    names_.push_back(std::move(name));
    blocks_.push_back(std::move(block));
  }

  [[nodiscard]] const std::vector<std::shared_ptr<Block>>& blocks() const override {
    return blocks_;
  }
  [[nodiscard]] const std::vector<std::string>& block_names() const override { return names_; }
  [[nodiscard]] LossSum loss(const at::Tensor& output, const data::Batch& batch) const override;
  [[nodiscard]] EvalSum evaluate(const at::Tensor& output, const data::Batch& batch) const override;

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<std::string> names_;
};

}  // namespace lockstep::model
