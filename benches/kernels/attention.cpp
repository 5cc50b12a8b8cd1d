// Attention, forward and back, beside the FMA peak measured between its runs.
//   bench_attention [--quick] [--json] [words of a case's name]
// GF/s counts what causality leaves: 2 products forward and 5 back (the scores are computed twice).
// Workspace is what the kernels are given; beside it they hold nothing that grows with T but one
// number for each row.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "benches/kernels/peak.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/attention.hpp"

namespace {

using namespace ebb;

struct Case {
  const char* name;
  std::size_t batch, time, heads, size;
  bool causal = true;
};

constexpr Case kCases[] = {{"attention", 1, 4096, 8, 64},   {"gpt-mini", 16, 256, 6, 64},
                           {"gpt-124m", 4, 256, 12, 64},    {"gpt-long", 1, 2048, 6, 64},
                           {"T 512", 1, 512, 8, 64},        {"T 1024", 1, 1024, 8, 64},
                           {"T 2048", 1, 2048, 8, 64},      {"whole", 1, 1024, 8, 64, false},
                           {"wide heads", 1, 1024, 8, 128}, {"one head", 1, 2048, 1, 64}};

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// f32 values, on huge pages where the system has them.
class Values {
 public:
  explicit Values(std::size_t count, unsigned seed = 0) {
    constexpr std::size_t kHuge = 2 << 20;
    const std::size_t bytes = (count * sizeof(float) + kHuge) / kHuge * kHuge;
    data_ = static_cast<float*>(std::aligned_alloc(kHuge, bytes));
    if (!data_) std::abort();
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::minstd_rand random(seed + 1);
    for (std::size_t i = 0; i < count; ++i)
      data_[i] = static_cast<float>(random() % 4096) / 1024.0f - 2.0f;
  }
  ~Values() { std::free(data_); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  float* data() const { return data_; }

 private:
  float* data_;
};

void measure(const Case& c, bool quick, bool json) {
  kernels::Attention a;
  a.batch = c.batch;
  a.queries = a.keys = c.time;
  a.heads = a.kv_heads = c.heads;
  a.size = c.size;
  a.q_row = a.k_row = a.v_row = c.heads * c.size;
  a.scale = 1 / std::sqrt(static_cast<double>(c.size));
  a.causal = c.causal;
  const std::size_t n = c.batch * c.time * c.heads * c.size;
  const Values q(n, 1), k(n, 2), v(n, 3), dout(n, 4), out(n), dq(n), dk(n), dv(n);
  const Values levels(2 * c.batch * c.heads * c.time);
  const std::size_t forward_bytes = kernels::attention_scratch<float>(a);
  const std::size_t backward_bytes = kernels::attention_backward_scratch<float>(a);
  const Values scratch(std::max(forward_bytes, backward_bytes) / sizeof(float));
  auto* bytes = reinterpret_cast<std::byte*>(scratch.data());

  const double seen = static_cast<double>(c.causal ? (c.time + 1) * c.time / 2 : c.time * c.time);
  const double product = 2e-9 * static_cast<double>(c.batch * c.heads * c.size) * seen;
  const int wanted = static_cast<int>((quick ? 200 : 600) / product);
  const int rounds = std::clamp(wanted, 3, quick ? 20 : 60);
  std::vector<double> forward, backward, both, peak;
  for (int round = -1; round < rounds; ++round) {  // the first is not counted
    const double start = seconds_now();
    kernels::attention<float>(a, q.data(), k.data(), v.data(), out.data(), levels.data(),
                              {bytes, forward_bytes});
    const double middle = seconds_now();
    kernels::attention_backward<float>(a, q.data(), k.data(), v.data(), out.data(), levels.data(),
                                       dout.data(), dq.data(), dk.data(), dv.data(),
                                       {bytes, backward_bytes});
    const double end = seconds_now();
    if (round < 0) continue;
    forward.push_back(middle - start);
    backward.push_back(end - middle);
    both.push_back(end - start);
    peak.push_back(bench::fma_peak(pool::threads()));
  }
  const double rate = 7 * product / median(both), of = median(peak);
  const double mib = static_cast<double>(std::max(forward_bytes, backward_bytes)) / (1 << 20);
  if (json) {
    std::printf(
        "{\"bench\":\"attention\",\"case\":\"%s\",\"metric\":\"rate\",\"value\":%.1f,\"unit\":"
        "\"GF/s\",\"against\":\"fma peak\",\"ratio\":%.3f,\"ms\":%.2f,\"workspace_mib\":%.2f}\n",
        c.name, rate, rate / of, 1e3 * median(both), mib);
  } else {
    std::printf("%-10s (%zu, %zu, %zu, %zu)%-7s %8.2f %8.2f %8.2f %7.1f %7.1f %7.1f %6.2f %8.2f\n",
                c.name, c.batch, c.time, c.heads, c.size, c.causal ? " causal" : "",
                1e3 * median(forward), 1e3 * median(backward), 1e3 * median(both),
                2 * product / median(forward), 5 * product / median(backward), rate, rate / of,
                mib);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false, json = false;
  std::string wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (argv[i][0] != '-') {
      wanted = argv[i];
    } else {
      std::fprintf(stderr, "usage: bench_attention [--quick] [--json] [words of a case's name]\n");
      return 2;
    }
  }
  if (!json)
    std::printf("%-35s %8s %8s %8s %7s %7s %7s %6s %8s\n", "case (batch, T, heads, size)", "fwd ms",
                "bwd ms", "both ms", "fwd", "bwd", "GF/s", "peak", "work MiB");
  for (const Case& c : kCases)
    if (std::string(c.name).find(wanted) != std::string::npos) measure(c, quick, json);
}
