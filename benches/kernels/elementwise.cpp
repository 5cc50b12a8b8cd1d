// Elementwise, cast and reduction kernels against the memory bandwidth, on arrays that do not fit
// in any cache.  bench_elementwise [--quick] [--json] [words of a case's name]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ebb/base/half.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/convert.hpp"
#include "ebb/kernels/elementwise.hpp"
#include "ebb/kernels/reduce.hpp"
#include "kernels/bandwidth.hpp"

namespace {

using namespace ebb;
using namespace ebb::bench;
using namespace ebb::kernels;

struct Case {
  std::string name;
  Streams streams;  // what it is held against
  double bytes;     // read and written by one run
  std::function<void()> run;
};

struct Arrays {
  Buffer a, b, c, y;
  std::size_t n;  // floats in each
  explicit Arrays(std::size_t count)
      : a(count * 4), b(count * 4), c(count * 4), y(count * 4), n(count) {
    for (std::size_t i = 0; i < n; ++i) {
      const int mixed = static_cast<int>(i * 2654435761u >> 8 & 0xffff);
      a.as<float>()[i] = static_cast<float>(mixed - 32768) * 1e-4f;
      b.as<float>()[i] = static_cast<float>(i % 1000) * 1e-3f + 0.5f;
      c.as<float>()[i] = 1.0f;
    }
  }
};

std::vector<Case> cases(const Arrays& m) {
  const float* a = m.a.as<float>();
  const float* b = m.b.as<float>();
  float* y = m.y.as<float>();
  const std::size_t n = m.n;
  const double array = static_cast<double>(n) * 4;
  std::vector<Case> all;
  const auto add_unary = [&](const char* name, Unary op, Scalars s = {}) {
    all.push_back({name, Streams::copy, 2 * array, [=] { unary(op, a, y, n, s); }});
  };
  const auto add_grad = [&](const char* name, UnaryGrad op) {
    all.push_back({name, Streams::triad, 3 * array, [=] { unary_grad(op, a, b, y, n); }});
  };
  add_unary("neg", Unary::neg);
  add_unary("relu", Unary::relu);
  add_unary("exp", Unary::exp);
  all.push_back({"log", Streams::copy, 2 * array, [=] { unary(Unary::log, b, y, n); }});
  add_unary("tanh", Unary::tanh);
  add_unary("sigmoid", Unary::sigmoid);
  add_unary("erf", Unary::erf);
  add_unary("gelu", Unary::gelu);
  add_unary("gelu_tanh", Unary::gelu_tanh);
  add_unary("silu", Unary::silu);
  add_unary("softplus", Unary::softplus);
  add_unary("sin", Unary::sin);
  add_unary("rsqrt", Unary::rsqrt);
  all.push_back(
      {"add", Streams::triad, 3 * array, [=] { binary(Binary::add, same_shape<2>(n), a, b, y); }});
  all.push_back(
      {"mul", Streams::triad, 3 * array, [=] { binary(Binary::mul, same_shape<2>(n), a, b, y); }});
  all.push_back(
      {"div", Streams::triad, 3 * array, [=] { binary(Binary::div, same_shape<2>(n), a, b, y); }});
  const std::int64_t rows = static_cast<std::int64_t>(n / 1024);
  const std::int64_t matrix[] = {rows, 1024}, bias[] = {1024}, column[] = {rows, 1};
  const Broadcast<2> by_row = broadcast<2>(matrix, {matrix, bias});
  const Broadcast<2> by_column = broadcast<2>(matrix, {matrix, column});
  all.push_back({"add bias (R,1024)+(1024)", Streams::copy, 2 * array,
                 [=] { binary(Binary::add, by_row, a, b, y); }});
  all.push_back({"mul column (R,1024)*(R,1)", Streams::copy, 2 * array,
                 [=] { binary(Binary::mul, by_column, a, b, y); }});
  add_grad("relu grad", UnaryGrad::relu);
  add_grad("tanh grad", UnaryGrad::tanh);
  add_grad("gelu grad", UnaryGrad::gelu);
  add_grad("gelu_tanh grad", UnaryGrad::gelu_tanh);
  add_grad("silu grad", UnaryGrad::silu);
  bf16* y16 = m.y.as<bf16>();
  f16* z16 = m.y.as<f16>();
  all.push_back({"cast f32 to bf16", Streams::copy, 1.5 * array, [=] { convert(a, y16, n); }});
  all.push_back({"cast f32 to f16", Streams::copy, 1.5 * array, [=] { convert(a, z16, n); }});
  const bf16* a16 = m.c.as<bf16>();
  all.push_back({"cast bf16 to f32", Streams::copy, 1.5 * array, [=] { convert(a16, y, n); }});
  all.push_back({"add bf16", Streams::triad, 1.5 * array,
                 [=] { binary(Binary::add, same_shape<2>(n), a16, a16 + n, y16); }});
  const std::int64_t flat[] = {static_cast<std::int64_t>(n)};
  const auto add_reduce = [&](const char* name, Reduce op, const Reduction& r) {
    all.push_back({name, Streams::read, array, [=] { reduce(op, r, a, y); }});
  };
  add_reduce("sum all", Reduce::sum, reduction(flat, 1));
  add_reduce("sum rows (R,1024)", Reduce::sum, reduction(matrix, 2));
  add_reduce("sum columns (R,1024)", Reduce::sum, reduction(matrix, 1));
  add_reduce("max rows (R,1024)", Reduce::max, reduction(matrix, 2));
  add_reduce("var rows (R,1024)", Reduce::var, reduction(matrix, 2));
  add_reduce("logsumexp rows (R,1024)", Reduce::logsumexp, reduction(matrix, 2));
  return all;
}

struct Rounds {
  std::vector<double> mine, yard;  // seconds
  std::vector<double> ratio;       // the yardstick's time over the kernel's, for the bytes of each
};

double timed(const std::function<void()>& run) {
  const double start = seconds_now();
  run();
  return seconds_now() - start;
}

// The machine's memory and its clock change state from one moment to the next. So a kernel is held
// against the passes right before and right after it, and the middle one of these ratios counts.
Rounds measure(const Case& c, const Arrays& m, int rounds) {
  const auto yardstick = [&](int variant) {
    return timed([&] { pass(c.streams, variant, m.a, m.b, m.c, m.y, m.n * 4); });
  };
  int fastest = 0;
  double least = 0;
  for (int v = 0; v < variants(c.streams); ++v) {
    std::vector<double> times;
    for (int k = 0; k < 4; ++k) times.push_back(yardstick(v));
    const double t = median({times[1], times[2], times[3]});
    if (v == 0 || t < least) least = t, fastest = v;
  }
  const double yard_bytes = static_cast<double>(m.n) * 4 * (reads(c.streams) + writes(c.streams));
  Rounds r;
  timed(c.run);
  double before = yardstick(fastest);
  for (int k = 0; k < rounds; ++k) {
    r.mine.push_back(timed(c.run));
    const double after = yardstick(fastest);
    r.yard.push_back((before + after) / 2);
    r.ratio.push_back(r.yard.back() / yard_bytes * c.bytes / r.mine.back());
    before = after;
  }
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false, json = false;
  std::string wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0)
      quick = true;
    else if (std::strcmp(argv[i], "--json") == 0)
      json = true;
    else if (argv[i][0] != '-')
      wanted = argv[i];
    else {
      std::fprintf(stderr,
                   "usage: bench_elementwise [--quick] [--json] [words of a case's name]\n");
      return 2;
    }
  }
  const std::size_t mebi = quick ? 32 : 64;
  const Arrays m(mebi << 20);
  const int rounds = quick ? 9 : 15;
  const int threads = pool::threads();
  if (!json)
    std::printf("%-28s %9s  %8s %9s  %8s  %s\n", "case", "GB/s", "against", "GB/s", "ratio",
                "(of all rounds)");
  for (const Case& c : cases(m)) {
    if (c.name.find(wanted) == std::string::npos) continue;
    const Rounds r = measure(c, m, rounds);
    const double ratio = median(r.ratio);
    const double gbs = c.bytes / median(r.mine) * 1e-9;
    if (json) {
      std::printf(
          "{\"bench\":\"kernels\",\"case\":\"%s %zuMi f32 %dt\",\"metric\":\"bandwidth\","
          "\"value\":%.3f,\"unit\":\"GB/s\",\"against\":\"%s\",\"ratio\":%.3f}\n",
          c.name.c_str(), mebi, threads, gbs, name(c.streams), ratio);
    } else {
      const double yard_bytes =
          static_cast<double>(m.n) * 4 * (reads(c.streams) + writes(c.streams));
      const auto [low, high] = std::minmax_element(r.ratio.begin(), r.ratio.end());
      std::printf("%-28s %9.2f  %8s %9.2f  %8.2f  (%.2f to %.2f)\n", c.name.c_str(), gbs,
                  name(c.streams), yard_bytes / median(r.yard) * 1e-9, ratio, *low, *high);
    }
    std::fflush(stdout);
  }
}
