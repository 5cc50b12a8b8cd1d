// Single ops at ordinary sizes, eager: forward, and forward with the gradients of all inputs.
//
//   bench_ops [--quick] [--json] [--only=ROW,…]
//
// Beside the same ops in PyTorch: ./bench ops. It looks for cliffs: sizes and layouts that nobody
// tuned for.
#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

#include "ebb/ebb.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Tensor some(const Shape& shape) {
  static std::uint64_t seed = 0;
  return random::normal(shape, 0, 0.5, 1, seed++);
}

Tensor below(const Shape& shape, std::int64_t limit) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::mt19937_64 random(1);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (auto& id : ids) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  return Tensor::from(ids, shape);
}

class Rows {
 public:
  Rows(const zoo::Report& report) : report_(report) {
    report_.say("%-24s %12s %22s\n", "row", "forward, ms", "with gradients, ms");
  }

  void row(const char* name, std::function<Inputs()> make, const Function& f,
           bool gradients = true) {
    if (!report_.wanted(name)) return;
    const Inputs in = make();
    const double forward = best([&] { f(in); });
    const double both = gradients ? best([&] { back(in, f); }) : 0;
    report_.say("%-24s %12.4f %22.4f\n", name, 1e3 * forward, 1e3 * both);
    report_.metric(name, "forward", 1e3 * forward, "ms");
    if (gradients) report_.metric(name, "with gradients", 1e3 * both, "ms");
  }

 private:
  template <class F>
  double best(F f) const {
    const double limit = report_.quick() ? 0.15 : 0.5, start = now();
    double least = 1e9;
    for (int i = 0; i < 3 || (i < 1000 && now() - start < limit); ++i) {
      const double begin = now();
      f();
      least = std::min(least, now() - begin);
    }
    return least;
  }

  static void back(const Inputs& in, const Function& f) {
    Tape tape;
    Inputs sources;
    for (const Tensor& x : in) {
      if (x.dtype() == DType::f32) sources.push_back(x);
    }
    for (const Tensor& x : sources) tape.watch(x);
    const Tensor y = f(in);
    tape.gradient(y, std::span<const Tensor>(sources));
  }

  const zoo::Report& report_;
};

void convolutions(Rows& rows) {
  const auto conv = [&](const char* name, const Shape& x, const Shape& weight,
                        const Conv2dOptions& options) {
    rows.row(
        name,
        [=] {
          return Inputs{some(x), some(weight)};
        },
        [=](const Inputs& in) { return conv2d(in[0], in[1], {}, options); });
  };
  conv("depthwise-3", {16, 56, 56, 96}, {96, 3, 3, 1}, {.padding = 1, .groups = 96});
  conv("depthwise-7", {16, 28, 28, 192}, {192, 7, 7, 1}, {.padding = 3, .groups = 192});
  conv("grouped", {16, 28, 28, 128}, {128, 3, 3, 32}, {.padding = 1, .groups = 4});
  conv("dilated", {8, 64, 64, 64}, {64, 3, 3, 64}, {.padding = 2, .dilation = 2});
  conv("first layer 7x7", {8, 224, 224, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3});
  conv("patches 16x16", {8, 224, 224, 3}, {192, 16, 16, 3}, {.stride = 16});
  conv("one image", {1, 56, 56, 64}, {64, 3, 3, 64}, {.padding = 1});
  conv("odd sizes", {7, 31, 29, 37}, {53, 3, 3, 37}, {.padding = 1});
  conv("1x1 stride 2", {32, 28, 28, 128}, {256, 1, 1, 128}, {.stride = 2});
  rows.row(
      "conv1d",
      [] {
        return Inputs{some({32, 1000, 64}), some({128, 5, 64})};
      },
      [](const Inputs& in) { return conv1d(in[0], in[1], {}, {.padding = 2}); });
  const auto image = [] { return Inputs{some({32, 56, 56, 64})}; };
  rows.row("max_pool2d", image,
           [](const Inputs& in) { return max_pool2d(in[0], {.window = 2, .stride = 2}); });
  rows.row("avg_pool2d", image,
           [](const Inputs& in) { return avg_pool2d(in[0], {.window = 2, .stride = 2}); });
  rows.row(
      "batch_norm",
      [] {
        return Inputs{some({32, 56, 56, 64}), some({64}), some({64})};
      },
      [](const Inputs& in) { return batch_norm_train(in[0], in[1], in[2]).y; });
}

void products(Rows& rows) {
  const auto product = [&](const char* name, const Shape& a, const Shape& b) {
    rows.row(
        name,
        [=] {
          return Inputs{some(a), some(b)};
        },
        [](const Inputs& in) { return matmul(in[0], in[1]); });
  };
  product("1x4096 4096x4096", {1, 4096}, {4096, 4096});
  product("8x4096 4096x4096", {8, 4096}, {4096, 4096});
  product("4096x16 16x4096", {4096, 16}, {16, 4096});
  product("4096x4096 4096x16", {4096, 4096}, {4096, 16});
  product("2048x1024 1024x128", {2048, 1024}, {1024, 128});
  product("20000x64 64x64", {20000, 64}, {64, 64});
  product("100x100 100x100", {100, 100}, {100, 100});
  product("10x10 10x10", {10, 10}, {10, 10});
  product("64 of 128x64 64x128", {64, 128, 64}, {64, 64, 128});
  product("4096 of 8x8 8x8", {4096, 8, 8}, {4096, 8, 8});
}

void sequences(Rows& rows) {
  const auto lstm_row = [&](const char* name, std::int64_t batch, std::int64_t steps,
                            std::int64_t in, std::int64_t n) {
    rows.row(
        name,
        [=] {
          return Inputs{some({batch, steps, in}), some({4 * n, in}), some({4 * n, n}),
                        some({4 * n})};
        },
        [](const Inputs& x) {
          return lstm(x[0], {x[1], x[2], x[3]}).output;
        });
  };
  lstm_row("lstm 1x100 64", 1, 100, 64, 64);
  lstm_row("lstm 33x40 77", 33, 40, 50, 77);
  lstm_row("lstm 64x50 512", 64, 50, 300, 512);
  rows.row(
      "gru 8x200 100",
      [] {
        return Inputs{some({8, 200, 100}), some({300, 100}), some({300, 100}), some({300}),
                      some({100})};
      },
      [](const Inputs& x) {
        return gru(x[0], {x[1], x[2], x[3], x[4]}).output;
      });
  const auto attend = [&](const char* name, std::int64_t batch, std::int64_t steps,
                          std::int64_t width, const AttentionOptions& options) {
    const Shape shape{batch, steps, width};
    rows.row(
        name,
        [=] {
          return Inputs{some(shape), some(shape), some(shape)};
        },
        [=](const Inputs& x) { return attention(x[0], x[1], x[2], options); });
  };
  attend("attention 16x128 8x64", 16, 128, 512, {.heads = 8});
  attend("attention 4x1000 8x80", 4, 1000, 640, {.heads = 8, .causal = true});
  attend("attention 64x33 4x32", 64, 33, 128, {.heads = 4});
}

void layouts(Rows& rows) {
  const auto one = [&](const char* name, const Shape& shape, Tensor (*f)(const Tensor&)) {
    rows.row(
        name, [=] { return Inputs{some(shape)}; }, [=](const Inputs& in) { return f(in[0]); });
  };
  const auto two = [] { return Inputs{some({4096, 512}), some({4096, 512})}; };
  one("heads to the front", {8, 512, 12, 64}, [](const Tensor& x) {
    return permute(x, {0, 2, 1, 3});
  });
  one("transpose", {4096, 4096}, [](const Tensor& x) { return transpose(x); });
  one("channels first", {16, 56, 56, 64}, [](const Tensor& x) { return permute(x, {0, 3, 1, 2}); });
  one("flip", {4096, 1024}, [](const Tensor& x) { return flip(x, {1}); });
  one("every second", {4096, 1024}, [](const Tensor& x) { return slice(x, 1, 0, 1024, 2); });
  one("tile", {256, 512}, [](const Tensor& x) { return tile(x, {8, 4}); });
  one("cumsum last axis", {4096, 1024}, [](const Tensor& x) { return cumsum(x, 1); });
  one("cumsum first axis", {4096, 1024}, [](const Tensor& x) { return cumsum(x, 0); });
  rows.row("concat", two, [](const Inputs& in) { return concat(in, 1); });
  rows.row("stack last axis", two, [](const Inputs& in) { return stack(in, 2); });
  rows.row(
      "gather rows",
      [] {
        return Inputs{some({50000, 256}), below({8192}, 50000)};
      },
      [](const Inputs& in) { return gather(in[0], in[1]); });
  rows.row(
      "take_along",
      [] {
        return Inputs{some({4096, 1024}), below({4096, 64}, 1024)};
      },
      [](const Inputs& in) { return take_along(in[0], in[1], 1); });
  rows.row(
      "one_hot", [] { return Inputs{below({8192}, 1000)}; },
      [](const Inputs& in) { return one_hot(in[0], 1000); }, false);
}

void elements(Rows& rows) {
  const auto one = [&](const char* name, const Shape& shape, Tensor (*f)(const Tensor&),
                       bool gradients = true) {
    rows.row(
        name, [=] { return Inputs{some(shape)}; }, [=](const Inputs& in) { return f(in[0]); },
        gradients);
  };
  const auto both = [&](const char* name, const Shape& a, const Shape& b,
                        Tensor (*f)(const Tensor&, const Tensor&)) {
    rows.row(
        name,
        [=] {
          return Inputs{some(a), some(b)};
        },
        [=](const Inputs& in) { return f(in[0], in[1]); });
  };
  const Shape cube{64, 512, 512};
  one("sum", cube, [](const Tensor& x) { return sum(x); });
  one("sum first axis", cube, [](const Tensor& x) { return sum(x, {0}); });
  one("sum first and last", cube, [](const Tensor& x) { return sum(x, {0, 2}); });
  one("sum of short rows", {1000000, 8}, [](const Tensor& x) { return sum(x, {1}); });
  one("max last axis", cube, [](const Tensor& x) { return max(x, {2}); });
  one("var middle axis", cube, [](const Tensor& x) { return var(x, {1}); });
  one(
      "argmax", cube, [](const Tensor& x) { return argmax(x, 2); }, false);
  one("softmax 1000", {8192, 1000}, [](const Tensor& x) { return softmax(x); });
  one("softmax 10", {500000, 10}, [](const Tensor& x) { return softmax(x); });
  one("softmax middle axis", cube, [](const Tensor& x) { return softmax(x, 1); });
  rows.row(
      "layer_norm 64",
      [] {
        return Inputs{some({100000, 64}), some({64}), some({64})};
      },
      [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); });
  both("times a row", cube, {64, 1, 512}, [](const Tensor& a, const Tensor& b) { return a * b; });
  both("times a column", cube, {64, 512, 1},
       [](const Tensor& a, const Tensor& b) { return a * b; });
  both("add", {16777216}, {16777216}, [](const Tensor& a, const Tensor& b) { return a + b; });
  both("add 1000", {1000}, {1000}, [](const Tensor& a, const Tensor& b) { return a + b; });
  both("where", {4194304}, {4194304},
       [](const Tensor& a, const Tensor& b) { return where(greater(a, b), a, b); });
  one("pow", {4194304}, [](const Tensor& x) { return pow(exp(x), 2.5); });
  rows.row(
      "cross-entropy 32000",
      [] {
        return Inputs{some({2048, 32000}), below({2048}, 32000)};
      },
      [](const Inputs& in) { return sparse_cross_entropy(in[0], in[1]).sum; });
}

}  // namespace

int main(int argc, char** argv) {
  const zoo::Report report("ops", argc, argv);
  Rows rows(report);
  convolutions(rows);
  products(rows);
  sequences(rows);
  layouts(rows);
  elements(rows);
}
