#include "lockstep/parallel/exchange/plain.h"

#include <utility>

#include "lockstep/comm/records/purpose.h"

namespace lockstep::parallel {
namespace {

class PlainExchange : public Exchange {
 public:
  explicit PlainExchange(const ExchangeSetting& setting) : setting_(setting) {}

  void adopt(const std::vector<BucketContent>& buckets) override {
    buckets_ = buckets;
    works_ = std::vector<std::unique_ptr<comm::Work>>(buckets.size());
  }

  void start(std::size_t bucket, const at::Tensor& gradients) override {
    const comm::Purpose purpose(buckets_[bucket].name);
    works_[bucket] = setting_.group.all_reduce(gradients, comm::ReduceOp::sum, setting_.order);
  }

  std::int64_t finish(std::size_t bucket) override {
    const auto work = std::exchange(works_[bucket], nullptr);
    work->wait();
    return work->ended_ns();
  }

 private:
  ExchangeSetting setting_;
  std::vector<BucketContent> buckets_;
  std::vector<std::unique_ptr<comm::Work>> works_;
};

}  // namespace

std::unique_ptr<Exchange> make_plain_exchange(const ExchangeSetting& setting) {
  return std::make_unique<PlainExchange>(setting);
}

}  // namespace lockstep::parallel
