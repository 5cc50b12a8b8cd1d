#include "ebb/optim/ema.hpp"

#include <fmt/core.h>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/optim/update_ops.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::optim {

Ema::Ema(std::vector<Variable> params, double decay) : params_(std::move(params)), decay_(decay) {
  if (!(decay >= 0 && decay < 1))
    throw Error(fmt::format("ema: decay is {}, expected at least 0 and below 1", decay));
  if (params_.empty()) throw Error("ema: there are no parameters to average");
  check_distinct("ema", params_);
  for (const Variable& p : params_) {
    if (!is_float(p.spec().dtype))
      throw Error(
          fmt::format("ema: parameter {} is {}; expected floats", p.name(), to_string(p.spec())));
    averages_.emplace_back("ema." + p.name(), Spec{p.shape(), working_type(p.spec().dtype)},
                           zeros_initially(), false, Category::optimizer);
  }
  updates_ = Variable("ema.updates", Tensor::zeros({}, DType::i64), false, Category::optimizer);
  aside_.resize(params_.size());
  entries_.reserve(params_.size());
}

std::int64_t Ema::updates() const { return updates_.value().item<std::int64_t>(); }

Ema::~Ema() = default;

double Ema::decay_now() const { return updates() == 0 ? 0 : decay_; }

std::vector<Variable> Ema::state() const {
  if (applied_)
    throw Error(
        "ema: the averages are applied, so weights and averages stand in each other's place; "
        "swap them back before they are saved");
  std::vector<Variable> all = averages_;
  all.push_back(updates_);
  return all;
}

// First everything that can fail, then the update, which cannot.
void Ema::update() {
  if (applied_) throw Error("ema: update() while the averages are applied; swap them back first");
  if (ops::tracer()) return update_traced();
  entries_.clear();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    averages_[i].own();
    const Tensor& value = params_[i].value();
    entries_.push_back({.spec = &averages_[i].spec(),
                        .grad_type = value.dtype(),
                        .param = averages_[i].bytes(),
                        .grad = value.raw()});
  }
  updates_.own();
  run_rule(entries_, kernels::EmaRule{decay_now()}, {}, {});
  ++*reinterpret_cast<std::int64_t*>(updates_.bytes());
}

void Ema::update_traced() {
  ops::Tracer& tracer = *ops::tracer();
  const Tape::Pause nobody;
  const Tensor now = tracer.before_step(
      fmt::format("ema {}", updates_.id()).c_str(), {{sizeof(kernels::EmaRule)}, DType::u8},
      [this](std::span<std::byte> to) {
        if (applied_)
          throw Error("ema: a step while the averages are applied; swap them back first");
        updates_.own();
        const kernels::EmaRule r{decay_now()};
        std::memcpy(to.data(), &r, sizeof r);
      });
  const CategoryScope category(Category::optimizer);
  for (std::size_t i = 0; i < params_.size(); ++i)
    averages_[i].adopt(ops::apply(ops::Ema{}, now, params_[i].value(), averages_[i].value()));
  tracer.after_step([this] { ++*reinterpret_cast<std::int64_t*>(updates_.bytes()); });
}

void Ema::swap() {
  if (ops::tracer()) throw Error("ema: averages are applied outside of compiled functions");
  if (updates() == 0) throw Error("ema: there are no averages before the first update()");
  const Tape::Pause nobody;
  const memory::Borrowing between_steps;
  std::vector<Tensor> rounded(params_.size());
  for (std::size_t i = 0; i < params_.size(); ++i) {
    params_[i].value();  // into memory, both
    const Tensor& average = averages_[i].value();
    const DType type = params_[i].spec().dtype;
    if (is_half(type) && !applied_) rounded[i] = cast(average, type);
  }
  if (!applied_) aside_ = std::move(rounded);
  exchange();
}

void Ema::exchange() noexcept {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    Tensor weight = params_[i].value();
    if (aside_[i]) {
      params_[i].adopt(std::move(aside_[i]));
      aside_[i] = applied_ ? Tensor() : std::move(weight);
    } else {
      Tensor average = averages_[i].value();
      params_[i].adopt(std::move(average));
      averages_[i].adopt(std::move(weight));
    }
  }
  applied_ = !applied_;
}

}  // namespace ebb::optim
