// What a plan says a step takes beside what it takes: a dozen small models, on one thread and on all.
// The machine is not quiet: of several rounds the fastest step counts.
//
//   bench_forecasts [--quick] [--json] [--only=MODEL,…] [--ops]   (--ops: by kind of call, too)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ebb/ebb.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/trace/fuse.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr double kBar = 0.25;

using Step = std::function<std::vector<Tensor>(const Batch&)>;

struct Model {
  const char* name;
  std::function<std::pair<Step, Batch>()> make;
};

Tensor ids(const Shape& shape, std::int64_t below) {
  const Tensor draws = random::uniform(shape, 0, static_cast<double>(below), 5, 3);
  return minimum(cast(draws, DType::i32),
                 Tensor::full({}, static_cast<double>(below - 1), DType::i32));
}

template <class M, class LossOf>
Step trained(M model, LossOf loss_of) {
  struct Both {
    M model;
    optim::AdamW adam;
    explicit Both(M m) : model(std::move(m)), adam(params(model)) {}
  };
  auto both = std::make_shared<Both>(std::move(model));
  return [both, loss_of](const Batch& b) -> std::vector<Tensor> {
    const Loss loss = both->adam.minimize(loss_of(both->model, b));
    return {loss.sum, loss.count};
  };
}
const auto classify = [](const auto& model, const Batch& b) {
  return sparse_cross_entropy(model(b["x"]), b["y"]);
};
const auto predict_next = [](const auto& model, const Batch& b) {
  return model.loss(b["x"], b["y"]);
};

Batch reals(const Shape& shape, std::int64_t classes) {
  return {{"x", random::uniform(shape, -1, 1, 5, 1)}, {"y", ids({shape[0]}, classes)}};
}
Batch words(std::int64_t rows, std::int64_t length, std::int64_t vocabulary) {
  return {{"x", ids({rows, length}, vocabulary)}, {"y", ids({rows, length}, vocabulary)}};
}

const nn::Init kInit(1);

struct ResidualMlp {
  std::vector<nn::Dense> up, down;
  std::vector<nn::LayerNorm> norms;
  nn::Dense head{kInit / "head", 256, 10};
  ResidualMlp() {
    for (int i = 0; i < 6; ++i) {
      norms.emplace_back(kInit / "norm" / i, 256);
      up.emplace_back(kInit / "up" / i, 256, 512, nn::DenseOptions{.activation = Activation::gelu});
      down.emplace_back(kInit / "down" / i, 512, 256);
    }
  }
  Tensor operator()(Tensor x) const {
    for (std::size_t i = 0; i < up.size(); ++i) x = x + dropout(down[i](up[i](norms[i](x))), 0.1);
    return head(x);
  }
  void each(auto&& f) { f("up", up), f("down", down), f("norms", norms), f("head", head); }
};

struct TiedLm {  // a window of four tokens, then the embedding again
  nn::Embedding tokens{kInit / "tokens", 8000, 128};
  nn::Dense mix{kInit / "mix", 4 * 128, 128, {.activation = Activation::tanh}};
  Loss loss(const Tensor& x, const Tensor& y) const {
    const Tensor seen = mix(reshape(tokens(x), {x.dim(0), 4 * 128}));
    return linear_cross_entropy(seen, tokens.weight, y);
  }
  void each(auto&& f) { f("tokens", tokens), f("mix", mix); }
};

struct ConvLstm {
  nn::Conv1d conv{kInit / "conv", 16, 64, 5, {.padding = {2, 2}}};
  nn::Lstm lstm{kInit / "lstm", 64, 128};
  nn::Dense head{kInit / "head", 128, 10};
  Tensor operator()(const Tensor& x) const { return head(lstm.last(relu(conv(x)))); }
  void each(auto&& f) { f("conv", conv), f("lstm", lstm), f("head", head); }
};

struct Depthwise {
  std::vector<nn::Conv2d> deep, point;
  std::vector<nn::BatchNorm> norms;
  nn::Conv2d stem{kInit / "stem", 3, 64, 3, {.padding = 1}};
  nn::Dense head{kInit / "head", 64, 10};
  Depthwise() {
    for (int i = 0; i < 3; ++i) {
      deep.emplace_back(kInit / "deep" / i, 64, 64, 3, Conv2dOptions{.padding = 1, .groups = 64});
      point.emplace_back(kInit / "point" / i, 64, 64, 1);
      norms.emplace_back(kInit / "norm" / i, 64);
    }
  }
  Tensor operator()(Tensor x) const {
    x = relu(stem(x));
    for (std::size_t i = 0; i < deep.size(); ++i) x = relu(norms[i](point[i](deep[i](x))));
    return head(mean(x, {1, 2}));
  }
  void each(auto&& f) {
    f("deep", deep), f("point", point), f("norms", norms), f("stem", stem), f("head", head);
  }
};

struct Bag {  // the mean of some embeddings
  nn::Embedding tokens{kInit / "tokens", 100000, 64};
  nn::Dense head{kInit / "head", 64, 10};
  Tensor operator()(const Tensor& x) const { return head(mean(tokens(x), {1})); }
  void each(auto&& f) { f("tokens", tokens), f("head", head); }
};

nn::GptOptions gpt(nn::GptOptions o, std::int64_t width, std::int64_t heads) {
  o.vocabulary = 512;
  o.layers = 4;
  o.width = width;
  o.heads = heads;
  if (o.kv_heads) o.kv_heads = heads / 2;
  o.context = 128;
  return o;
}

using Made = std::pair<Step, Batch>;

std::vector<Model> models() {
  std::vector<Model> all;
  const auto add = [&](const char* name, std::function<Made()> make) {
    all.push_back({name, std::move(make)});
  };
  add("residual-mlp", [] { return Made(trained(ResidualMlp(), classify), reals({128, 256}, 10)); });
  add("tied-lm", [] {
    return Made(trained(TiedLm(), predict_next),
                Batch{{"x", ids({256, 4}, 8000)}, {"y", ids({256}, 8000)}});
  });
  add("conv-lstm", [] { return Made(trained(ConvLstm(), classify), reals({32, 64, 16}, 10)); });
  add("resnet", [] {
    const nn::ResNetOptions o{.channels = {16, 32}, .blocks = 2, .classes = 10};
    return Made(trained(nn::ResNet(kInit, o), classify), reals({16, 32, 32, 3}, 10));
  });
  add("gpt", [] {
    return Made(trained(nn::Gpt(kInit, gpt({}, 192, 6)), predict_next), words(4, 128, 512));
  });
  add("gru", [] {
    const nn::SequenceOptions o{.in = 32, .hidden = 160, .classes = 10};
    return Made(trained(nn::GruClassifier(kInit, o), classify), reals({64, 40, 32}, 10));
  });
  add("encoder", [] {
    const nn::EncoderOptions o{
        .vocabulary = 2000, .context = 96, .layers = 3, .width = 192, .heads = 4};
    return Made(trained(nn::EncoderClassifier(kInit, o), classify),
                Batch{{"x", ids({8, 96}, 2000)}, {"y", ids({8}, 2)}});
  });
  add("wide-mlp", [] {
    return Made(trained(nn::Mlp(kInit, {784, 2048, 2048, 10}), classify), reals({64, 784}, 10));
  });
  add("lstm-lm", [] {
    const nn::RecurrentLmOptions o{.vocabulary = 1000, .embedding = 128, .hidden = 256};
    return Made(trained(nn::LstmLm(kInit, o), predict_next), words(16, 32, 1000));
  });
  add("depthwise", [] { return Made(trained(Depthwise(), classify), reals({16, 32, 32, 3}, 10)); });
  add("embeddings", [] {
    return Made(trained(Bag(), classify),
                Batch{{"x", ids({512, 64}, 100000)}, {"y", ids({512}, 10)}});
  });
  add("llama", [] {
    const nn::GptOptions o = gpt(nn::GptOptions::llama(), 192, 6);
    return Made(trained(nn::Gpt(kInit, o), predict_next), words(4, 128, 512));
  });
  return all;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// By title of the call: what was forecast, and what the executor measured.
void say_ops(const Report& report, const auto& step) {
  std::map<std::string, std::pair<double, double>> all;
  const plan::Plan& p = step.plan();
  for (const plan::Program& program : p.programs)
    for (const plan::Step& s : program.schedule.steps)
      if (s.kind == plan::Step::Kind::run) {
        const trace::Call& call = program.trace.calls[program.lowered.call[s.node]];
        all[trace::title(call)].first += program.lowered.graph.nodes[s.node].seconds;
      }
  for (const exec::CallTime& t : step.executor().times()) all[t.op].second += t.seconds;
  for (const auto& [op, times] : all)
    if (std::max(times.first, times.second) > 0.02 * p.forecast.seconds)
      report.say("    %-44s %9.3f %9.3f %7.2f\n", op.substr(0, 44).c_str(), times.first * 1e3,
                 times.second * 1e3, times.second / times.first);
}

}  // namespace

int main(int argc, char** argv) {
  Report report("forecasts", argc, argv);
  bool ops = false;
  for (int i = 1; i < argc; ++i) ops |= !std::strcmp(argv[i], "--ops");
  const int all = pool::threads();
  std::vector<int> counts = {1};
  if (all > 1) counts.push_back(all);
  report.say("%-14s %7s %12s %12s %18s\n", "model", "threads", "forecast ms", "measured ms",
             "measured/forecast");
  int inside = 0, count = 0;
  double worst = 1;
  for (const Model& m : models()) {
    if (!report.wanted(m.name)) continue;
    for (const int threads : counts) {
      pool::set_threads(threads);
      auto [fn, batch] = m.make();
      std::vector<Spec> specs;
      Names names = batch.names();
      for (const Tensor& t : batch.values()) specs.push_back(t.spec());
      auto step = compile({std::make_shared<Names>(names), specs}, {}, fn);
      double best = 1e9;
      const double until = now() + (report.quick() ? 0.5 : 2);
      for (int i = 0; i < 5 || now() < until; ++i) {
        const double begin = now();
        step(batch);
        best = std::min(best, now() - begin);
      }
      const double forecast = step.plan().forecast.seconds, ratio = best / forecast;
      ++count;
      inside += std::abs(ratio - 1) <= kBar;
      if (std::abs(std::log(ratio)) > std::abs(std::log(worst))) worst = ratio;
      report.say("%-14s %7d %12.2f %12.2f %18.2f\n", m.name, threads, forecast * 1e3, best * 1e3,
                 ratio);
      report.compare(formatted("%s, %d threads", m.name, threads), "step", best, "s", "forecast",
                     ratio);
      if (ops) say_ops(report, step);
    }
  }
  pool::set_threads(all);
  report.check("steps take what was forecast, within 25%", inside == count,
               formatted("%d of %d; furthest %.2f", inside, count, worst));
  return report.exit_code();
}
