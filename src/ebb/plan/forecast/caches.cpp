#include "ebb/plan/forecast/caches.hpp"

#include <fmt/core.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"

namespace ebb::plan {
namespace {

constexpr double kCountedOn = 0.5;  // of the shared cache
constexpr std::size_t kLine = 64;   // bytes
constexpr int kMostLevels = 8;      // of caches that are looked for

std::string text_of(const std::string& path) {
  try {
    return file_exists(path) ? read_file(path) : "";
  } catch (const Error&) {  // as if it were not there
    return "";
  }
}

// "32768K"
double bytes_of(const std::string& size) {
  double bytes = 0;
  char unit = 0;
  std::sscanf(size.c_str(), "%lf%c", &bytes, &unit);
  return unit == 'K' ? bytes * 1024 : unit == 'M' ? bytes * (1 << 20) : bytes;
}

// Of "ff,00000003": how many cores use it together.
int cores_of(const std::string& map) {
  int cores = 0;
  for (const char c : map) {
    const unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
    cores += std::popcount(digit);
  }
  return std::max(1, cores);
}

}  // namespace

double near_cache(int threads) {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return static_cast<double>(bytes > 0 ? bytes : 256 << 10) * threads;
}

// Not by sysconf, which multiplies by cores that a virtual machine does not have.
double shared_cache(int threads, const std::string& root) {
  double all = 0;
  for (int i = 0; i < kMostLevels; ++i) {
    const std::string cache = fmt::format("{}/index{}/", root, i);
    const double bytes = bytes_of(text_of(cache + "size"));
    const int cores = cores_of(text_of(cache + "shared_cpu_map"));
    all = std::max(all, bytes * ((threads + cores - 1) / cores));  // threads may be on several
  }
  return kCountedOn * std::max(all, near_cache(threads));
}

#ifdef __SSE2__
bool can_put_out_of_caches() { return true; }

void put_out_of_caches(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  for (std::size_t i = 0; i < bytes; i += kLine) _mm_clflush(begin + i);
  if (bytes > 0) _mm_clflush(begin + bytes - 1);
  _mm_mfence();
}
#else
bool can_put_out_of_caches() { return false; }

void put_out_of_caches(const void*, std::size_t) {}
#endif

}  // namespace ebb::plan
