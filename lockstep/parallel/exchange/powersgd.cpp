// r rows of a factor; n rows and m columns of a matrix of gradients; N ranks.
#include "lockstep/parallel/exchange/powersgd.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <utility>

#include "lockstep/base/rng.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"
#include "lockstep/parallel/exchange/orthogonal_rows.h"
#include "lockstep/parallel/plan/powersgd_rule.h"

namespace lockstep::parallel {
namespace {

/// A stretch that travels as it is.
struct Rest {
  std::int64_t offset = 0;  // in the bucket
  std::int64_t count = 0;
  std::int64_t place = 0;  // on the wire
};

struct Matrix {
  BucketMatrix place;
  at::Tensor error;  // [n,m]: what this rank's gradients have lost so far
  at::Tensor start;  // [r,m]: the right factor of the step before, where this one begins
  at::Tensor left;   // [r,n], on the wire of the first exchange
  at::Tensor right;  // [r,m], on the wire of the second one
};

class PowerSgdExchange : public Exchange {
 public:
  explicit PowerSgdExchange(const ExchangeSetting& setting) : setting_(setting) {}

  void adopt(const std::vector<BucketContent>& buckets) override;
  void begin_step(std::int64_t updates) override { whole_ = updates < setting_.powersgd_from; }
  void drop_step() override;
  void start(std::size_t bucket, const at::Tensor& gradients) override;
  std::int64_t finish(std::size_t bucket) override;

 private:
  struct Bucket {
    std::string name;
    std::vector<Matrix> matrices;
    std::vector<Rest> rests;
    at::Tensor lefts;   // wire of the first exchange: left factors, then the rests
    at::Tensor rights;  // of the second
    at::Tensor gradients;
    std::unique_ptr<comm::Work> first{};
    std::unique_ptr<comm::Work> second{};
  };

  [[nodiscard]] std::int64_t rank_of(const BucketMatrix& matrix) const;
  [[nodiscard]] Bucket plan(const BucketContent& content);
  [[nodiscard]] at::Tensor gradient_of(const Bucket& bucket, const Matrix& matrix) const;
  void exchange_rights();
  void take(const Bucket& bucket, Matrix& matrix);
  void fill(at::Tensor row);
  std::unique_ptr<comm::Work> sum(const Bucket& bucket, const at::Tensor& wire);

  ExchangeSetting setting_;
  std::vector<Bucket> buckets_;
  bool whole_ = false;       // this step is not compressed
  std::uint64_t drawn_ = 0;  // rows of random numbers so far, the same on all ranks
};

std::int64_t PowerSgdExchange::rank_of(const BucketMatrix& matrix) const {
  return parallel::powersgd_rank(setting_.powersgd_rank, matrix.rows, matrix.columns);
}

PowerSgdExchange::Bucket PowerSgdExchange::plan(const BucketContent& content) {
  const memory::Scope scope(memory::Category::communication);
  Bucket bucket;
  bucket.name = content.name;
  std::int64_t lefts = 0;
  std::int64_t rights = 0;
  std::int64_t end = 0;  // of what has a place on a wire
  const auto add_rest = [&](std::int64_t until) {
    if (until > end) bucket.rests.push_back({end, until - end, 0});
  };
  for (const BucketMatrix& place : content.matrices) {
    const std::int64_t rank = rank_of(place);
    if (rank == 0) continue;
    add_rest(place.offset);
    end = place.offset + place.rows * place.columns;
    lefts += rank * place.rows;
    rights += rank * place.columns;
    bucket.matrices.push_back({place, {}, {}, {}, {}});
  }
  add_rest(content.count);
  std::int64_t rest = lefts;
  for (Rest& stretch : bucket.rests) stretch.place = std::exchange(rest, rest + stretch.count);
  bucket.lefts = setting_.group.symmetric_zeros(rest, at::kFloat);
  bucket.rights = setting_.group.symmetric_zeros(rights, at::kFloat);
  lefts = rights = 0;
  for (Matrix& matrix : bucket.matrices) {
    const auto [offset, rows, columns] = matrix.place;
    const std::int64_t rank = rank_of(matrix.place);
    matrix.left = bucket.lefts.narrow(0, lefts, rank * rows).view({rank, rows});
    matrix.right = bucket.rights.narrow(0, rights, rank * columns).view({rank, columns});
    lefts += rank * rows;
    rights += rank * columns;
    matrix.start = at::empty({rank, columns}, at::kFloat);
    for (std::int64_t r = 0; r < rank; ++r) fill(matrix.start[r]);
    const memory::Scope errors(memory::Category::gradients);
    matrix.error = at::zeros({rows, columns}, at::kFloat);
  }
  return bucket;
}

/// With numbers that are the same on all ranks.
void PowerSgdExchange::fill(at::Tensor row) {
  Rng rng(mix(setting_.seed, drawn_++));
  float* values = row.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < row.numel(); ++i) {
    values[i] = static_cast<float>(rng.uniform() - 0.5);
  }
}

void PowerSgdExchange::adopt(const std::vector<BucketContent>& buckets) {
  const at::NoGradGuard no_autograd;
  buckets_.clear();
  for (const BucketContent& content : buckets) buckets_.push_back(plan(content));
}

/// Errors hold what that step left out, and its gradients come once more or never.
void PowerSgdExchange::drop_step() {
  for (Bucket& bucket : buckets_) {
    for (Matrix& matrix : bucket.matrices) matrix.error.zero_();
  }
}

at::Tensor PowerSgdExchange::gradient_of(const Bucket& bucket, const Matrix& matrix) const {
  const auto [offset, rows, columns] = matrix.place;
  return bucket.gradients.narrow(0, offset, rows * columns).view({rows, columns});
}

std::unique_ptr<comm::Work> PowerSgdExchange::sum(const Bucket& bucket, const at::Tensor& wire) {
  const comm::Purpose purpose(bucket.name);
  return setting_.group.all_reduce(wire, comm::ReduceOp::sum, setting_.order);
}

void PowerSgdExchange::start(std::size_t index, const at::Tensor& gradients) {
  const at::NoGradGuard no_autograd;
  Bucket& bucket = buckets_[index];
  bucket.gradients = gradients;
  if (whole_) {
    bucket.first = sum(bucket, gradients);
    return;
  }
  for (Matrix& matrix : bucket.matrices) {
    at::Tensor gradient = gradient_of(bucket, matrix);
    gradient.add_(matrix.error);
    at::mm_out(matrix.left, matrix.start, gradient.t());
  }
  for (const Rest& rest : bucket.rests) {
    bucket.lefts.narrow(0, rest.place, rest.count)
        .copy_(gradients.narrow(0, rest.offset, rest.count));
  }
  bucket.first = sum(bucket, bucket.lefts);
}

/// For all buckets before the first is waited for: one bucket computes while another travels.
void PowerSgdExchange::exchange_rights() {
  for (Bucket& bucket : buckets_) {
    bucket.first->wait();
    if (bucket.matrices.empty()) continue;
    for (Matrix& matrix : bucket.matrices) {
      make_rows_orthonormal(matrix.left);
      at::mm_out(matrix.right, matrix.left, gradient_of(bucket, matrix));
    }
    bucket.second = sum(bucket, bucket.rights);
  }
}

/// The gradient becomes the product of the factors, which is about the sum over all ranks; this
/// rank's share of the difference is kept for the next step.
void PowerSgdExchange::take(const Bucket& bucket, Matrix& matrix) {
  const at::Tensor gradient = gradient_of(bucket, matrix);
  matrix.error.copy_(gradient);
  at::Tensor target = gradient;
  at::mm_out(target, matrix.left.t(), matrix.right);
  matrix.error.sub_(gradient, 1.0 / setting_.group.size());
  bool is_finite = true;
  for (std::int64_t r = 0; r < matrix.right.size(0); ++r) {
    const double norm = matrix.right[r].norm().item<double>();
    is_finite = is_finite && std::isfinite(norm);
    // A direction without any gradient in it would stay empty for good.
    if (norm > 0 && std::isfinite(norm)) {
      matrix.start[r].copy_(matrix.right[r]);
    } else {
      fill(matrix.start[r]);
    }
  }
  if (!is_finite) matrix.error.zero_();  // that step is skipped; the next ones must not inherit it
}

std::int64_t PowerSgdExchange::finish(std::size_t index) {
  const at::NoGradGuard no_autograd;
  Bucket& bucket = buckets_[index];
  if (whole_) {
    const auto work = std::exchange(bucket.first, nullptr);
    work->wait();
    bucket.gradients.reset();
    return work->ended_ns();
  }
  if (index == 0) exchange_rights();
  std::int64_t ended_ns = std::exchange(bucket.first, nullptr)->ended_ns();
  if (bucket.second != nullptr) {
    const auto second = std::exchange(bucket.second, nullptr);
    second->wait();
    ended_ns = second->ended_ns();
  }
  for (const Rest& rest : bucket.rests) {
    bucket.gradients.narrow(0, rest.offset, rest.count)
        .copy_(bucket.lefts.narrow(0, rest.place, rest.count));
  }
  for (Matrix& matrix : bucket.matrices) take(bucket, matrix);
  bucket.gradients.reset();
  return ended_ns;
}

}  // namespace

std::unique_ptr<Exchange> make_powersgd_exchange(const ExchangeSetting& setting) {
  return std::make_unique<PowerSgdExchange>(setting);
}

}  // namespace lockstep::parallel
