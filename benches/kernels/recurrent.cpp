// lstm and gru over whole sequences: forward, backward and the weight's gradient, beside the FMA
// peak of the same run. Only the recurrent part counts; the input's product is an ordinary one.
//
//   bench_recurrent [--quick] [--json]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benches/kernels/peak.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/recurrent.hpp"

namespace {

namespace kernels = ebb::kernels;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Floats {
 public:
  explicit Floats(std::size_t n, unsigned seed = 1, float size = 1)
      : data_(static_cast<float*>(::operator new (n * sizeof(float), std::align_val_t{64}))),
        n_(n) {
    for (std::size_t i = 0; i < n; ++i) {
      seed = seed * 1664525u + 1013904223u;
      data_[i] = size * (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
    }
  }
  ~Floats() { ::operator delete (data_, std::align_val_t{64}); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* at() const { return data_; }
  std::span<std::byte> bytes() const { return std::as_writable_bytes(std::span(data_, n_)); }

 private:
  float* data_;
  std::size_t n_;
};

struct Shape {
  const char* name;
  std::size_t batch, steps, hidden;
};

// Everything a call of either kind needs.
struct Problem {
  kernels::Recurrence over;
  std::size_t gates, rows;
  Floats gates_in, weight, bias, h, last, activated, cells, dh, dgates, drest, dstate, dweight;
  Floats scratch;

  Problem(const Shape& s, std::size_t g)
      : over{.batch = s.batch, .steps = s.steps, .hidden = s.hidden},
        gates(g),
        rows(s.batch * s.steps),
        gates_in(rows * g * s.hidden, 1),
        weight(g * s.hidden * s.hidden, 2, 0.05f),
        bias(s.hidden, 3),
        h(rows * s.hidden),
        last(s.batch * 2 * s.hidden),
        activated(rows * g * s.hidden),
        cells(rows * s.hidden),
        dh(rows * s.hidden, 4),
        dgates(rows * g * s.hidden),
        drest(rows * s.hidden),
        dstate(s.batch * 2 * s.hidden),
        dweight(g * s.hidden * s.hidden),
        scratch(std::max(kernels::recurrent_scratch(over, g, sizeof(float)),
                         kernels::recurrent_weight_grad_scratch(sum())) /
                sizeof(float)) {}

  kernels::RecurrentWeightGrad<float> sum() const {
    const std::size_t n = over.hidden;
    const bool gru = gates == 3;
    return {over,
            dgates.at(),
            gates * n,
            gru ? 2 * n : 4 * n,
            gru ? drest.at() : nullptr,
            gru ? n : 0,
            h.at(),
            nullptr,
            0,
            dweight.at()};
  }
  void forward() const {
    if (gates == 4)
      return kernels::lstm(kernels::Lstm<float>{over, gates_in.at(), weight.at(), nullptr, h.at(),
                                                last.at(), activated.at(), cells.at()},
                           scratch.bytes());
    kernels::gru(kernels::Gru<float>{over, gates_in.at(), weight.at(), bias.at(), nullptr, h.at(),
                                     last.at(), activated.at(), cells.at()},
                 scratch.bytes());
  }
  void backward() const {
    if (gates == 4)
      return kernels::lstm_backward(
          kernels::LstmBack<float>{over, activated.at(), cells.at(), weight.at(), nullptr, dh.at(),
                                   nullptr, dgates.at(), dstate.at()},
          scratch.bytes());
    kernels::gru_backward(
        kernels::GruBack<float>{over, activated.at(), cells.at(), h.at(), weight.at(), nullptr,
                                dh.at(), nullptr, dgates.at(), drest.at(), dstate.at()},
        scratch.bytes());
  }
  void weight_grad() const {
    std::memset(dweight.at(), 0, dweight.bytes().size());
    kernels::recurrent_weight_grad(sum(), scratch.bytes());
  }
};

double best_of(int rounds, const std::function<void()>& f) {
  f();
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false, json = false;
  for (int i = 1; i < argc; ++i) {
    quick |= std::strcmp(argv[i], "--quick") == 0;
    json |= std::strcmp(argv[i], "--json") == 0;
  }
  double peak = 0;
  for (int i = 0; i < 10; ++i) peak = std::max(peak, ebb::bench::fma_peak(ebb::pool::threads()));
  if (!json) fmt::print("{:<28}{:>12}{:>10}{:>10}\n", "case", "ms", "GFLOP/s", "of peak");
  const Shape shapes[] = {{"512 x 50, 256", 512, 50, 256},
                          {"32 x 32, 512", 32, 32, 512},
                          {"32 x 32, 128", 32, 32, 128},
                          {"1 x 20, 32", 1, 20, 32}};
  for (const std::size_t gates : {4, 3}) {
    for (const Shape& s : shapes) {
      const Problem p(s, gates);
      const double flops = 2.0 * static_cast<double>(p.rows * gates * s.hidden * s.hidden);
      const int rounds = static_cast<int>((quick ? 5 : 20) * std::max(1.0, 2e8 / flops));
      const auto row = [&](const char* pass, double seconds) {
        const double rate = flops / seconds * 1e-9;
        const std::string name = fmt::format("{} {} {}", gates == 4 ? "lstm" : "gru", s.name, pass);
        if (json) {
          fmt::print(
              "{{\"bench\": \"recurrent\", \"case\": \"{}\", \"metric\": \"rate\", \"value\": "
              "{:.4g}, "
              "\"unit\": \"GFLOP/s\", \"against\": \"FMA peak\", \"ratio\": {:.3f}}}\n",
              name, rate, rate / peak);
        } else {
          fmt::print("{:<28}{:>12.4f}{:>10.1f}{:>9.0f}%\n", name, seconds * 1e3, rate,
                     100 * rate / peak);
        }
      };
      row("forward", best_of(rounds, [&] { p.forward(); }));
      row("backward", best_of(rounds, [&] { p.backward(); }));
      row("weight", best_of(rounds, [&] { p.weight_grad(); }));
    }
  }
  return 0;
}
