// Every template builds, plans, trains in a small budget, and learns. With EBB_WHOLE=1 each is run to its end, and
// says what it took and reached.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "ebb/exec/compile.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/train/build/model.hpp"
#include "ebb/train/build/optimizer.hpp"
#include "tests/train/build/template_data.hpp"

namespace ebb {
namespace {

// The run of a template, whole or cut short.
struct TemplateRun {
  train::Config config;
  test::TemplateData data;
  train::Length length;
  train::Rates rates;
  train::Model model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;

  TemplateRun(const train::Template& t, const std::vector<std::string>& overrides)
      : config(train::parse_config(t.text(), t.name + ".toml", overrides)),
        data(test::data_of(t, config)),
        length(train::length_of(config, data.facts.rows)),
        rates(train::make_rates(config, length)),
        model(train::make_model(config, data.facts)),
        optimizer(train::make_optimizer(config, params(model), rates)),
        ema(train::make_ema(config, optimizer->params())) {
    random::seed(static_cast<std::uint64_t>(config.train.seed));
  }

  Dataset batches() const {
    return data.train.shuffle(static_cast<std::uint64_t>(config.train.seed))
        .batch(config.train.batch);
  }
  auto step() {
    return compile(batches().spec(), train::compile_options(config), [this](const Batch& b) {
      const Loss loss = optimizer->minimize(model.loss(b));
      if (ema) ema->update();
      return loss;
    });
  }
  std::vector<double> evaluate() {
    const Dataset held_out = data.held_out.batch(config.train.batch);
    auto test = compile(held_out.spec(), train::compile_options(config),
                        [this](const Batch& b) { return model.measure(b); });
    const auto applied =
        ema && ema->updates() > 0 ? std::make_unique<optim::Ema::Applied>(*ema) : nullptr;
    std::vector<double> sums(model.metrics().size()), counts(sums.size());
    for (const Batch& b : held_out.epoch(0)) {
      const std::vector<Loss> figures = test(b);
      for (std::size_t i = 0; i < figures.size(); ++i) {
        sums[i] += figures[i].sum.item();
        counts[i] += figures[i].count.item();
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = model.metrics()[i].value(sums[i], counts[i]);
    return sums;
  }
};

class Templates : public testing::TestWithParam<std::string> {};

TEST_P(Templates, trains) {
  const bool whole = std::getenv("EBB_WHOLE") != nullptr;
  const train::Template& t = train::find_template(GetParam());
  std::vector<std::string> overrides;
  if (!whole) overrides = {t.name == "encoder" ? "train.steps=250" : "train.steps=40"};
  TemplateRun run(t, overrides);
  const double before = run.evaluate()[0];
  auto step = run.step();
  if (whole) std::cout << step.plan() << '\n';
  const auto started = std::chrono::steady_clock::now();
  std::int64_t taken = 0;
  for (const Batch& b : run.batches().epochs(run.length.steps / run.length.per_epoch + 1)) {
    if (taken++ == run.length.steps) break;
    step(b);
  }
  const std::vector<double> after = run.evaluate();
  EXPECT_LT(after[0], 0.95 * before);
  if (!whole) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::cout << t.name << ": " << run.length.steps << " steps, " << took.count() << " s, loss "
            << before;
  for (std::size_t i = 0; i < after.size(); ++i)
    std::cout << ", " << run.model.metrics()[i].name << ' ' << after[i];
  std::cout << '\n';
}

// Ten steps in the smallest budget there is, and without one: the same weights.
TEST_P(Templates, fits) {
  const train::Template& t = train::find_template(GetParam());
  const auto weights = [&](const std::string& budget, std::uint64_t& smallest) {
    TemplateRun run(t, {"train.steps=10", "memory.allow=same_bits", "train.warmup=0",
                        "memory.budget=" + budget});
    auto step = run.step();
    smallest = step.plan().minimum;
    int taken = 0;
    for (const Batch& b : run.batches().epochs(1))
      if (taken++ < 10) step(b);
    std::vector<std::vector<float>> all;
    for (const Variable& v : params(run.model)) {  // some may be in the spill file
      auto& values = all.emplace_back(static_cast<std::size_t>(v.spec().size()));
      v.read(std::as_writable_bytes(std::span(values)), 0);
    }
    return all;
  };
  std::uint64_t smallest = 0, same = 0;
  const auto free = weights("none", smallest);
  EXPECT_EQ(weights(std::to_string(smallest + (1 << 20)) + "B", same), free);
}

INSTANTIATE_TEST_SUITE_P(All, Templates,
                         testing::Values("mlp", "cnn", "lstm", "gpt", "encoder", "tabular"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ebb
