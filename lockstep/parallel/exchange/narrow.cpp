#include "lockstep/parallel/exchange/narrow.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"
#include "lockstep/optim/update.h"

namespace lockstep::parallel {
namespace {

class NarrowExchange : public Exchange {
 public:
  NarrowExchange(const ExchangeSetting& setting, at::ScalarType type, float divisor)
      : setting_(setting), type_(type), divisor_(divisor) {}

  void adopt(const std::vector<BucketContent>& buckets) override;
  void begin_step(std::int64_t /*updates*/) override { overflown_.reset(); }
  void start(std::size_t bucket, const at::Tensor& gradients) override;
  std::int64_t finish(std::size_t bucket) override;
  std::optional<std::size_t> overflown() const override { return overflown_; }

 private:
  struct Bucket {
    std::string name;
    at::Tensor gradients;  // while on its way
    at::Tensor wire;       // a part of wire_; undefined for what travels in fp32
    std::unique_ptr<comm::Work> work{};
  };

  [[nodiscard]] bool take_fp16(const at::Tensor& into, const at::Tensor& wire) const;

  ExchangeSetting setting_;
  at::ScalarType type_;
  float divisor_;  // of what travels
  std::optional<std::size_t> overflown_;
  at::Tensor wire_;
  std::vector<Bucket> buckets_;
};

/// The bucket with the control numbers travels in fp32; it is small.
void NarrowExchange::adopt(const std::vector<BucketContent>& buckets) {
  std::int64_t total = 0;
  for (const BucketContent& content : buckets) total += content.has_control ? 0 : content.count;
  buckets_.clear();
  wire_.reset();
  if (total > 0) {
    const memory::Scope scope(memory::Category::communication);
    wire_ = setting_.group.symmetric_zeros(total, type_);
  }
  std::int64_t offset = 0;
  for (const BucketContent& content : buckets) {
    Bucket bucket{content.name, {}, {}};
    if (!content.has_control) {
      bucket.wire = wire_.narrow(0, offset, content.count);
      offset += content.count;
    }
    buckets_.push_back(std::move(bucket));
  }
}

void NarrowExchange::start(std::size_t index, const at::Tensor& gradients) {
  const at::NoGradGuard no_autograd;
  Bucket& bucket = buckets_[index];
  bucket.gradients = gradients;
  at::Tensor wire = gradients;
  if (bucket.wire.defined()) {
    wire = bucket.wire;
    if (divisor_ != 1) gradients.mul_(1 / divisor_);
    wire.copy_(gradients);
  }
  const comm::Purpose purpose(bucket.name);
  bucket.work = setting_.group.all_reduce(wire, comm::ReduceOp::sum, setting_.order);
}

std::int64_t NarrowExchange::finish(std::size_t index) {
  const at::NoGradGuard no_autograd;
  Bucket& bucket = buckets_[index];
  const auto work = std::exchange(bucket.work, nullptr);
  work->wait();
  const at::Tensor gradients = std::exchange(bucket.gradients, {});
  if (!bucket.wire.defined()) return work->ended_ns();
  if (type_ == at::kHalf) {
    if (!take_fp16(gradients, bucket.wire) && !overflown_) overflown_ = index;
  } else {
    gradients.copy_(bucket.wire);
  }
  return work->ended_ns();
}

/// One pass: widens, multiplies and looks for what is not finite.
bool NarrowExchange::take_fp16(const at::Tensor& into, const at::Tensor& wire) const {
  return optim::take_gradient(into.mutable_data_ptr<float>(),
                              reinterpret_cast<const Fp16Bits*>(wire.const_data_ptr<at::Half>()),
                              into.numel(), divisor_, /*add=*/false);
}

}  // namespace

std::unique_ptr<Exchange> make_bf16_exchange(const ExchangeSetting& setting) {
  return std::make_unique<NarrowExchange>(setting, at::kBFloat16, 1.0F);
}

std::unique_ptr<Exchange> make_fp16_exchange(const ExchangeSetting& setting) {
  return std::make_unique<NarrowExchange>(setting, at::kHalf, static_cast<float>(setting.weight));
}

}  // namespace lockstep::parallel
