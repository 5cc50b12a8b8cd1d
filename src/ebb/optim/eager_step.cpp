// A step here and now, on tensors. No heap is used after the first one.
#include <fmt/core.h>

#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/optim/optimizer_core.hpp"
#include "ebb/optim/update_ops.hpp"

namespace ebb::optim {
namespace {

double squares(const Entry& entry) {
  const std::size_t bytes = entry.index_spec
                                ? sparse_squares_scratch(entry)
                                : sum_of_squares_scratch({entry.spec->shape, entry.grad_type});
  memory::Buffer scratch(bytes, "clip_norm", Category::workspace);
  const std::span<std::byte> all(scratch.data(), bytes);
  return entry.index_spec ? sparse_squares(entry, all) : sum_of_squares(entry, all);
}

}  // namespace

Loss OptimizerCore::minimize_eager(const Loss& loss, Tape& tape) {
  try {
    if (const BadLoss bad = bad_loss(); bad != BadLoss::allow) {
      const double sum = loss.sum.item();
      if (!std::isfinite(sum) && bad == BadLoss::stop)
        ops::StepScale::refuse(sum, loss.count.item(), steps() + 1);
      if (!std::isfinite(sum)) {
        skip_step();
        tape.commit();
        return loss;
      }
    }
    const double scale = static_cast<float>(scale_.now());  // as a compiled step reads it
    const Tensor seed = scale_.used() ? Tensor::full({}, scale, loss.sum.dtype()) : Tensor();
    const Tensor *ys[] = {&loss.sum}, *dys[] = {&seed};
    sources_.clear();
    for (const Variable& p : params_) sources_.push_back(&p.value());
    ask_for_sparse();
    tape.gradient_into(ys, dys, sources_, gradients_, sparse_);
    step_eager(gradients_, sparse_, loss.count.item(), scale);
  } catch (...) {
    drop_gradients();
    tape.discard();
    throw;
  }
  drop_gradients();
  tape.commit();
  return loss;
}

void OptimizerCore::skip_step() {
  scale_.own();
  skipped_.own();
  if (norm_) norm_.assign(Tensor::full({}, NAN, DType::f64));
  count_step(false);
}

void OptimizerCore::ask_for_sparse() {
  for (std::size_t i = 0; i < params_.size(); ++i)
    sparse_[i].most =
        masters_[i] ? 0 : rule_->most_sparse_rows(params_[i].spec(), slots_[i].size());
}

void OptimizerCore::drop_gradients() {
  gradients_.assign(params_.size(), Tensor());
  sparse_.assign(params_.size(), {});
}

// First everything that can fail, then the update, which cannot.
void OptimizerCore::step_eager(std::span<const Tensor> gradients,
                               std::span<const SparseGradient> sparse, double count,
                               double loss_scale) {
  check_gradient_count(gradients.size());
  if (!(count > 0))
    throw Error(fmt::format("{}: the loss counts {} examples; there is nothing to learn from",
                            name_, count));
  gather_entries(gradients, sparse);
  const std::size_t scratch_size = rule_->scratch_bytes(entries_);
  memory::Buffer scratch(scratch_size, name_.c_str(), Category::workspace);
  steps_.own();
  skipped_.own();
  lr_.own();
  scale_.own();
  if (norm_) norm_.own();

  const double sum = norm_ ? squared_norm() : 0;
  const auto [scale, norm] = ops::StepScale{clip_norm_, scale_.used()}.of(sum, count, loss_scale);
  ask_schedule(0);
  if (norm_) *reinterpret_cast<double*>(norm_.bytes()) = norm;
  if (scale != 0) update_all(scale, {scratch.data(), scratch_size});
  count_step(!norm_ || std::isfinite(norm));
}

// One for each parameter that has a gradient, with all bytes that its update writes.
void OptimizerCore::gather_entries(std::span<const Tensor> gradients,
                                   std::span<const SparseGradient> sparse) {
  entries_.clear();
  entry_setting_.clear();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const bool is_sparse = !sparse.empty() && sparse[i].rows;
    if (!gradients[i] && !is_sparse) continue;
    const Tensor& gradient = is_sparse ? sparse[i].rows : gradients[i];
    if (!is_sparse) check_gradient(i, gradient.spec());
    Variable& p = params_[i];
    p.own();
    Entry e{.spec = &p.spec(),
            .grad_type = gradient.dtype(),
            .param = p.bytes(),
            .grad = gradient.raw()};
    if (is_sparse) {
      e.index_spec = &sparse[i].indices.spec();
      e.indices = sparse[i].indices.raw();
    }
    if (masters_[i]) {
      masters_[i].own();
      e.master = masters_[i].bytes();
    }
    for (std::size_t k = 0; k < slots_[i].size(); ++k) {
      slots_[i][k].own();
      e.state[k] = slots_[i][k].bytes();
    }
    entries_.push_back(e);
    entry_setting_.push_back(setting_of_[i]);
  }
  if (entries_.empty())
    throw Error(fmt::format("{}: the loss depends on none of the parameters", name_));
}

// One chain over the parameters, each by itself: so a compiled step can add them up as they come.
double OptimizerCore::squared_norm() const {
  double sum = 0;
  for (const Entry& e : entries_) sum += squares(e);
  return sum;
}

void OptimizerCore::update_all(double scale, std::span<std::byte> scratch) {
  for (std::size_t s = 0; s < settings_.size(); ++s) {
    grouped_.clear();
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (entry_setting_[i] == s) grouped_.push_back(entries_[i]);
    if (!grouped_.empty()) rule_->run(grouped_, {scale, clip_value_}, numbers(s, 0), scratch);
  }
}

}  // namespace ebb::optim
