// conv2d forward, input gradient and weight gradient beside oneDNN's convolution primitives.
//
//   bench_conv [--quick] [--json]
//
// oneDNN chooses its own weight format in both of its runs; activations are channels-last in one
// and in the format it likes best in the other, reorders not counted. The faster of the two is the
// yardstick. All three take turns, and the medians are compared. Layers of 3×3 come once more by
// Winograd's algorithm, with a mean of their own; GFLOP/s are those of the plain sum.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <immintrin.h>
#include <dnnl.hpp>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/conv.hpp"

namespace {

using ebb::kernels::Conv2dShape;

// Memory in huge pages where the system has them, for both sides.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_((bytes + kPage) / kPage * kPage) {
    data_ = std::aligned_alloc(kPage, bytes_);
    if (data_ == nullptr) std::abort();
    madvise(data_, bytes_, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes_);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* floats() const { return static_cast<float*>(data_); }
  void* data() const { return data_; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }
  void fill(unsigned seed) {
    for (std::size_t i = 0; i < bytes_ / sizeof(float); ++i) {
      seed = seed * 1664525u + 1013904223u;
      floats()[i] = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
    }
  }

 private:
  static constexpr std::size_t kPage = 2 << 20;
  std::size_t bytes_;
  void* data_;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// GFLOP/s of one core doing nothing but fused multiply-adds in registers.
__attribute__((target("avx2,fma"))) double fma_peak() {
  double best = 0;
  const __m256 m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(1e-3f);
  for (int round = 0; round < 5; ++round) {
    __m256 a0 = c, a1 = c, a2 = c, a3 = c, a4 = c, a5 = c, a6 = c, a7 = c, a8 = c, a9 = c;
    constexpr int kTurns = 2000000;
    const double start = now();
    for (int i = 0; i < kTurns; ++i) {
      a0 = _mm256_fmadd_ps(a0, m, c), a1 = _mm256_fmadd_ps(a1, m, c);
      a2 = _mm256_fmadd_ps(a2, m, c), a3 = _mm256_fmadd_ps(a3, m, c);
      a4 = _mm256_fmadd_ps(a4, m, c), a5 = _mm256_fmadd_ps(a5, m, c);
      a6 = _mm256_fmadd_ps(a6, m, c), a7 = _mm256_fmadd_ps(a7, m, c);
      a8 = _mm256_fmadd_ps(a8, m, c), a9 = _mm256_fmadd_ps(a9, m, c);
      asm volatile("" : "+x"(a0), "+x"(a1), "+x"(a2), "+x"(a3), "+x"(a4));
      asm volatile("" : "+x"(a5), "+x"(a6), "+x"(a7), "+x"(a8), "+x"(a9));
    }
    best = std::max(best, kTurns * 160.0 / (now() - start) * 1e-9);
  }
  return best;
}

enum class Pass { kForward, kInputGrad, kWeightGrad };
const char* name(Pass p) {
  return p == Pass::kForward ? "forward" : p == Pass::kInputGrad ? "input_grad" : "weight_grad";
}

// One of oneDNN's primitives with its buffers.
class Peer {
 public:
  Peer(const Conv2dShape& s, Pass pass, bool channels_last) {
    using namespace dnnl;
    const auto dim = [](std::size_t n) { return static_cast<memory::dim>(n); };
    const auto tag = channels_last ? memory::format_tag::nhwc : memory::format_tag::any;
    const auto f32 = memory::data_type::f32;
    const memory::desc x({dim(s.batch), dim(s.in_c), dim(s.in_h), dim(s.in_w)}, f32, tag);
    const memory::desc y({dim(s.batch), dim(s.out_c), dim(s.out_h()), dim(s.out_w())}, f32, tag);
    const memory::desc w({dim(s.out_c), dim(s.in_c), dim(s.kernel_h), dim(s.kernel_w)}, f32,
                         memory::format_tag::any);
    const memory::dims stride{dim(s.stride_h), dim(s.stride_w)};
    const memory::dims low{dim(s.pad_top), dim(s.pad_left)},
        high{dim(s.pad_bottom), dim(s.pad_right)};
    const algorithm direct = algorithm::convolution_direct;
    const convolution_forward::primitive_desc forward(
        {prop_kind::forward_training, direct, x, w, y, stride, low, high}, engine_);
    if (pass == Pass::kForward) {
      add(DNNL_ARG_SRC, forward.src_desc());
      add(DNNL_ARG_WEIGHTS, forward.weights_desc());
      add(DNNL_ARG_DST, forward.dst_desc());
      primitive_ = convolution_forward(forward);
    } else if (pass == Pass::kInputGrad) {
      const convolution_backward_data::primitive_desc pd({direct, x, w, y, stride, low, high},
                                                         engine_, forward);
      add(DNNL_ARG_DIFF_SRC, pd.diff_src_desc());
      add(DNNL_ARG_WEIGHTS, pd.weights_desc());
      add(DNNL_ARG_DIFF_DST, pd.diff_dst_desc());
      primitive_ = convolution_backward_data(pd);
    } else {
      const convolution_backward_weights::primitive_desc pd({direct, x, w, y, stride, low, high},
                                                            engine_, forward);
      add(DNNL_ARG_SRC, pd.src_desc());
      add(DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc());
      add(DNNL_ARG_DIFF_DST, pd.diff_dst_desc());
      primitive_ = convolution_backward_weights(pd);
    }
  }

  void run() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  void add(int arg, const dnnl::memory::desc& desc) {
    buffers_.push_back(std::make_unique<Buffer>(desc.get_size()));
    buffers_.back()->fill(static_cast<unsigned>(arg));
    args_.emplace(arg, dnnl::memory(desc, engine_, buffers_.back()->data()));
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unordered_map<int, dnnl::memory> args_;
};

struct Layer {
  std::string name;
  Conv2dShape s;
};

Layer layer(std::size_t batch, std::size_t size, std::size_t in_c, std::size_t out_c,
            std::size_t kernel, std::size_t stride) {
  Conv2dShape s{.batch = batch,
                .in_h = size,
                .in_w = size,
                .in_c = in_c,
                .out_c = out_c,
                .kernel_h = kernel,
                .kernel_w = kernel,
                .stride_h = stride,
                .stride_w = stride};
  s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = kernel / 2;
  char text[96];
  std::snprintf(text, sizeof text, "%zux%zux%zux%zu->%zu k%zu s%zu", batch, size, size, in_c, out_c,
                kernel, stride);
  return {text, s};
}

struct Figures {
  double ebb, last, any, spread;  // GFLOP/s; spread of Ebb's times, (max - min) / median
};

Figures measure(const Conv2dShape& s, Pass pass, double seconds) {
  Buffer x(s.batch * s.in_h * s.in_w * s.in_c * 4),
      y(s.batch * s.out_h() * s.out_w() * s.out_c * 4);
  Buffer w(s.out_c * s.kernel_h * s.kernel_w * s.in_c * 4);
  x.fill(1), y.fill(2), w.fill(3);
  std::size_t bytes = 0;
  namespace k = ebb::kernels;
  switch (pass) {
    case Pass::kForward:
      bytes = k::conv2d_scratch_bytes<float>(s);
      break;
    case Pass::kInputGrad:
      bytes = k::conv2d_input_grad_scratch_bytes<float>(s);
      break;
    case Pass::kWeightGrad:
      bytes = k::conv2d_weight_grad_scratch_bytes<float>(s);
      break;
  }
  Buffer scratch(bytes);
  const auto run = [&] {
    switch (pass) {
      case Pass::kForward:
        return k::conv2d<float>(s, x.floats(), w.floats(), nullptr, y.floats(), scratch.bytes());
      case Pass::kInputGrad:
        return k::conv2d_input_grad<float>(s, y.floats(), w.floats(), x.floats(), scratch.bytes());
      case Pass::kWeightGrad:
        return k::conv2d_weight_grad<float>(s, x.floats(), y.floats(), w.floats(), false,
                                            scratch.bytes());
    }
  };
  Peer last(s, pass, true), any(s, pass, false);
  std::vector<double> ebb_times, last_times, any_times;
  const auto time = [](auto&& f, std::vector<double>& times) {
    const double start = now();
    f();
    times.push_back(now() - start);
  };
  std::vector<double> warm;
  for (int i = 0; i < 2; ++i) {
    time(run, warm), time([&] { last.run(); }, warm), time([&] { any.run(); }, warm);
  }
  const double until = now() + seconds;
  while (now() < until || ebb_times.size() < 5) {
    time(run, ebb_times);
    time([&] { last.run(); }, last_times);
    time([&] { any.run(); }, any_times);
  }
  const double flops = 2e-9 * static_cast<double>(s.batch * s.out_h() * s.out_w() * s.out_c *
                                                  s.in_c * s.kernel_h * s.kernel_w);
  const auto [low, high] = std::minmax_element(ebb_times.begin(), ebb_times.end());
  return {flops / median(ebb_times), flops / median(last_times), flops / median(any_times),
          (*high - *low) / median(ebb_times)};
}

class Mean {
 public:
  void add(double ratio) {
    log_sum_ += std::log(ratio);
    least_ = std::min(least_, ratio);
    ++count_;
  }
  void print(const char* what, bool json) const {
    if (count_ == 0) return;
    const double mean = std::exp(log_sum_ / count_);
    if (!json) {
      std::printf("%sgeometric mean %.3f, minimum %.3f of the faster oneDNN run\n", what, mean,
                  least_);
      return;
    }
    const auto line = [&](const char* of, double value) {
      std::printf(
          "{\"bench\":\"conv\",\"case\":\"%s%s\",\"metric\":\"ratio\",\"value\":%.3f,"
          "\"unit\":\"x\",\"against\":\"oneDNN\",\"ratio\":%.3f}\n",
          what, of, value, value);
    };
    line("geometric mean", mean);
    line("minimum", least_);
  }

 private:
  double log_sum_ = 0, least_ = 1e9;
  int count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  // oneDNN's OpenMP threads must not spin while Ebb has its turn; they read this at their start.
  if (std::getenv("GOMP_SPINCOUNT") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("GOMP_SPINCOUNT", "0", 1);
    execv("/proc/self/exe", argv);
  }
  bool quick = false, json = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--quick")
      quick = true;
    else if (arg == "--json")
      json = true;
    else
      only = arg.rfind("--only=", 0) == 0 ? arg.substr(7) : arg;
  }
  std::vector<Layer> layers = {
      layer(128, 32, 16, 16, 3, 1), layer(128, 16, 32, 32, 3, 1),  layer(128, 8, 64, 64, 3, 1),
      layer(32, 32, 64, 64, 3, 1),  layer(32, 16, 128, 128, 3, 1), layer(32, 8, 256, 256, 3, 1),
      layer(128, 32, 16, 32, 3, 2), layer(32, 16, 128, 256, 3, 2), layer(128, 32, 16, 16, 1, 1),
      layer(128, 16, 32, 32, 1, 1), layer(128, 16, 64, 64, 1, 1),  layer(32, 16, 128, 128, 1, 1),
      layer(64, 8, 256, 256, 1, 1), layer(32, 32, 64, 128, 1, 2)};
  for (std::size_t i = 0, plain = layers.size(); i < plain; ++i) {
    Layer l = layers[i];
    if (l.s.kernel_h != 3 || l.s.stride_h != 1) continue;
    l.s.winograd = true;
    l.name += " winograd";
    layers.push_back(l);
  }
  const double seconds = quick ? 0.15 : 0.6;
  using SetThreads = void (*)(int);
  const auto set_omp = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  const double peak = fma_peak();
  if (!json) {
    std::printf("FMA peak of one core: %.1f GFLOP/s\n", peak);
    std::printf("%-40s %-11s %7s %8s %8s %8s %6s %6s %7s\n", "layer", "pass", "threads", "Ebb",
                "dnn nhwc", "dnn any", "ratio", "%peak", "spread");
  }
  Mean plain, winograd;
  for (const Layer& l : layers) {
    if (!only.empty() && l.name.find(only) == std::string::npos) continue;
    for (const Pass pass : {Pass::kForward, Pass::kInputGrad, Pass::kWeightGrad}) {
      for (const int threads : {1, 2}) {
        ebb::pool::set_threads(threads);
        if (set_omp != nullptr) set_omp(threads);
        const Figures f = measure(l.s, pass, seconds);
        const double ratio = f.ebb / std::max(f.last, f.any);
        (l.s.winograd ? winograd : plain).add(ratio);
        if (json) {
          std::printf(
              "{\"bench\":\"conv\",\"case\":\"%s %s t%d\",\"metric\":\"gflops\",\"value\":%.2f,"
              "\"unit\":\"GFLOP/s\",\"against\":\"oneDNN\",\"ratio\":%.3f}\n",
              l.name.c_str(), name(pass), threads, f.ebb, ratio);
        } else {
          std::printf("%-40s %-11s %7d %8.1f %8.1f %8.1f %6.2f %5.0f%% %6.0f%%\n", l.name.c_str(),
                      name(pass), threads, f.ebb, f.last, f.any, ratio,
                      100 * f.ebb / (peak * threads), 100 * f.spread);
        }
        std::fflush(stdout);
      }
    }
  }
  plain.print("", json);
  winograd.print("winograd, ", json);
}
