#include "ebb/tape/custom.hpp"

#include <fmt/core.h>

#include <unordered_set>

#include "ebb/base/error.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {

using namespace ops;
using custom_detail::Function;

namespace {

class CustomRule final : public CustomGrad {
 public:
  explicit CustomRule(Custom custom) : gradient_(std::move(custom.gradient)) {}
  const char* name() const override { return "custom_gradient"; }
  void grad(Back& back) const override {
    std::vector<Tensor> gradients = gradient_(back.d());
    if (gradients.size() != static_cast<std::size_t>(back.inputs()))
      throw Error(fmt::format("custom_gradient: {} gradients were given for {} inputs",
                              gradients.size(), back.inputs()));
    for (int i = 0; i < back.inputs(); ++i) back.give(i, std::move(gradients[i]));
  }

 private:
  std::function<std::vector<Tensor>(const Tensor&)> gradient_;
};

// Notes what a function reads from outside that somebody may want the gradient of.
class Probe final : public Recorder {
 public:
  // `behind`: the recorders whose place it takes, or before which it stands.
  Probe(std::span<const Tensor> inputs, Recorder* behind) : behind_(behind) {
    for (const Tensor& x : inputs)
      if (seen_.insert(x.handle()).second) read.push_back(x);
  }
  void record(const OpType&, const void*, std::span<const Tensor* const> in,
              std::span<const Tensor> out) override {
    note(in, out);
  }
  void record(std::shared_ptr<const CustomGrad>, std::span<const Tensor* const> in,
              std::span<const Tensor> out) override {
    note(in, out);
  }
  bool tracks(const Tensor& x) const override {
    if (made_.contains(x.id())) return true;
    for (const Recorder* r = behind_; r; r = r->outer)
      if (r->tracks(x)) return true;
    return false;
  }
  bool reads(const Tensor& x) const { return seen_.contains(x.handle()); }

  std::vector<Tensor> read;

 private:
  void note(std::span<const Tensor* const> in, std::span<const Tensor> out) {
    bool any = false;
    for (const Tensor* x : in) {
      if (!tracks(*x)) continue;
      any = true;
      if (!made_.contains(x->id()) && seen_.insert(x->handle()).second) read.push_back(*x);
    }
    if (any)
      for (const Tensor& y : out) made_.insert(y.id());
  }
  Recorder* behind_;
  std::unordered_set<const Tensor::Value*> seen_;  // kept alive by `read`
  std::unordered_set<std::uint64_t> made_;
};

class Recompute final : public CustomGrad {
 public:
  Recompute(Function fn, std::span<const Tensor> inputs, random::State state)
      : fn_(std::move(fn)), inputs_(inputs.begin(), inputs.end()), state_(state) {}

  std::vector<Tensor> read;  // parallel to the recorded inputs

  const char* name() const override { return "checkpoint"; }

  void grad(Back& back) const override {
    std::vector<Tensor> sources, sums;
    std::vector<int> places;
    for (int i = 0; i < back.inputs(); ++i)
      if (back.wants(i)) {
        sources.push_back(read[i]);
        places.push_back(i);
      }
    Tape tape;
    for (const Tensor& x : sources) tape.watch(x);
    std::vector<Tensor> outputs = again();
    std::vector<Tensor> flows(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) flows[i] = back.d(static_cast<int>(i));
    for (const int i : places) sums.push_back(back.take(i));
    tape.gradient_into(outputs, flows, sources, sums);
    tape.discard();  // what the first pass will assign at its end is not assigned twice
    for (std::size_t k = 0; k < places.size(); ++k) back.give(places[k], std::move(sums[k]));
  }

 private:
  std::vector<Tensor> again() const {
    const random::State now = random::state();
    struct Restore {
      random::State now;
      ~Restore() { random::restore(now); }
    } restore{now};
    random::restore(state_);
    CategoryScope category(Category::activations);
    Probe probe(inputs_, recorders());
    probe.outer = recorders();
    std::vector<Tensor> outputs;
    {
      RecorderSwap swap(&probe);
      outputs = fn_(inputs_);
    }
    for (const Tensor& x : read)
      if (!probe.reads(x))
        throw Error(
            "checkpoint: the function read other values on the way back than on the way forward; "
            "ask for the gradient before variables change, and let it depend on nothing that "
            "moves");
    return outputs;
  }

  Function fn_;
  std::vector<Tensor> inputs_;
  random::State state_;
};

void record_everywhere(const std::shared_ptr<const CustomGrad>& rule, std::span<const Tensor> in,
                       std::span<const Tensor> out) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& x : in) inputs.push_back(&x);
  for (Recorder* r = recorders(); r;) {
    Recorder* const outer = r->outer;
    r->record(rule, inputs, out);
    r = outer;
  }
}

// A result that is one of the inputs gets an identity of its own, so that the rule applies to it.
Tensor apart(const Tensor& y, std::span<const Tensor> inputs) {
  for (const Tensor& x : inputs)
    if (x.id() == y.id()) return y.viewed(y.shape());
  return y;
}

}  // namespace

Tensor custom_detail::custom_gradient_of(const std::function<Custom(std::span<const Tensor>)>& fn,
                                         std::span<const Tensor> inputs) {
  Custom custom;
  {
    // The innermost tape takes the rule for what happens inside; those outside it see both, so that
    // the rule itself can be differentiated.
    RecorderSwap swap(recorders() ? recorders()->outer : nullptr);
    custom = fn(inputs);
  }
  if (!custom.result || !custom.gradient)
    throw Error("custom_gradient: the function gave no result or no gradient rule");
  const Tensor y = recording() ? custom.result.viewed(custom.result.shape()) : custom.result;
  if (recording())
    record_everywhere(std::make_shared<CustomRule>(std::move(custom)), inputs, {&y, 1});
  return y;
}

std::vector<Tensor> custom_detail::checkpointed(const Function& fn,
                                                std::span<const Tensor> inputs) {
  if (!recording()) return fn(inputs);
  auto rule = std::make_shared<Recompute>(fn, inputs, random::state());
  Probe probe(inputs, recorders());
  std::vector<Tensor> outputs;
  {
    RecorderSwap swap(&probe);
    outputs = fn(inputs);
  }
  for (Tensor& y : outputs) y = apart(y, probe.read);
  rule->read = std::move(probe.read);
  const std::vector<Tensor> read = rule->read;
  record_everywhere(rule, read, outputs);
  return outputs;
}

}  // namespace ebb
