// How fast the disk under a directory is while all threads compute.
#include <fmt/core.h>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/checksum.hpp"
#include "ebb/kernels/gemm.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/plan/forecast/measure.hpp"
#include "ebb/plan/forecast/timed_op.hpp"

namespace ebb::plan {
namespace {

// All threads at small products, as in a step, for as long as `go` is set; how many they did.
class Computing {
 public:
  std::uint64_t during(const std::atomic<bool>& go) {
    std::atomic<std::uint64_t> done = 0;
    const auto count = static_cast<std::size_t>(pool::threads());
    pool::parallel_for(count, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t at = begin; at < end; ++at) {
        auto* const floats = reinterpret_cast<float*>(data_.data() + at * each_);
        kernels::Gemm g = product(floats);
        for (; go; ++done) kernels::gemm(g, {data_.data() + at * each_ + kFloats, scratch_});
      }
    });
    return done;
  }

 private:
  static constexpr std::size_t kSide = 64, kFloats = 3 * kSide * kSide * sizeof(float);
  static kernels::Gemm product(float* floats) {
    kernels::Gemm g{};
    g.m = g.n = g.k = g.ldc = kSide;
    g.a = {floats, kernels::Storage::f32, kSide, false};
    g.b = {floats + kSide * kSide, kernels::Storage::f32, kSide, false};
    g.c = floats + 2 * kSide * kSide;
    return g;
  }
  const std::size_t scratch_ = kernels::gemm_scratch(product(nullptr));
  const std::size_t each_ = memory::aligned(kFloats + scratch_);
  memory::Buffer data_{each_ * static_cast<std::size_t>(pool::threads()), "spill speed",
                       Category::workspace};
};

constexpr std::uint64_t kLittleRoom = 16 << 20;

struct Disk {
  double write = 0, read = 0;  // bytes a second
  double busy = 0;             // seconds a byte
  bool sane() const {
    return write > 1e6 && write < 1e12 && read > 1e6 && read < 1e12 && busy >= 0 && busy < 1e-6;
  }
};

// While all threads compute, as they will: the file's thread takes some of their time, they some of
// its. The median of some pieces: a disk has bursts as well as slow moments. Past the page cache
// where that can be; a file system in memory is no disk, and is not measured.
bool measure_disk(const std::string& directory, Disk& disk, std::uint64_t room) {
  const std::size_t piece = room < kLittleRoom ? 256 << 10 : 2 << 20;
  const InLittleMemory little(room);
  constexpr int kPieces = 32;
  constexpr double kLongest = 0.1, kAlone = 0.03;  // seconds for each way, and without a file
  File file = File::temporary(directory, true);
  if (!file.direct() || file.in_memory()) return false;
  const memory::Unguarded plans;
  memory::Buffer held(piece + File::kDirectAlignment, "spill speed", Category::workspace);
  std::fill_n(held.data(), held.size(), std::byte{1});
  const auto past = reinterpret_cast<std::uintptr_t>(held.data()) % File::kDirectAlignment;
  const std::span data(held.data() + (File::kDirectAlignment - past), piece);
  file.reserve(piece * kPieces);
  Computing computing;
  int written = 0, moved = 0;
  const auto each = [&](int pieces, auto&& move) {
    double took[kPieces];
    int done = 0;
    for (const double begin = now(); done < pieces && now() - begin < kLongest; ++done, ++moved) {
      const double start = now();
      move(static_cast<std::uint64_t>(done) * piece);
      took[done] = now() - start;
    }
    std::nth_element(took, took + done / 2, took + done);
    return rounded(static_cast<double>(piece) / took[done / 2]);
  };
  std::exception_ptr failed;
  const auto beside = [&](auto&& work) {  // products a second
    std::atomic<bool> go = true;
    const double begin = now();
    std::thread other([&] {
      try {
        work();
      } catch (...) {
        failed = std::current_exception();
      }
      go = false;
    });
    const std::uint64_t products = computing.during(go);
    other.join();
    return std::pair(static_cast<double>(products), now() - begin);
  };
  const auto [alone, seconds_alone] =
      beside([&] { std::this_thread::sleep_for(std::chrono::duration<double>(kAlone)); });
  const auto [products, seconds] = beside([&] {
    disk.write = each(kPieces, [&](std::uint64_t at) {
      static_cast<void>(kernels::checksum(data.data(), data.size(), at));
      file.write_at(at, data);
      ++written;
    });
    disk.read = each(written, [&](std::uint64_t at) {
      file.read_at(at, data);
      static_cast<void>(kernels::checksum(data.data(), data.size(), at));
    });
  });
  if (failed) std::rethrow_exception(failed);
  const double lost = seconds - products / (alone / seconds_alone);
  disk.busy =
      std::clamp(lost / (static_cast<double>(moved) * static_cast<double>(piece)), 0.05e-9, 2e-9);
  return true;
}

}  // namespace

Machine with_spill_speed(const Machine& machine, const std::string& directory, std::uint64_t room) {
  static std::mutex lock;
  static std::map<std::uint64_t, Disk> known;  // by device
  Machine m = machine;
  const std::string beside = cache_path();
  struct stat about {};
  if (beside.empty() || stat(directory.c_str(), &about) != 0) return m;
  const std::lock_guard guard(lock);
  const auto [at, fresh] =
      known.try_emplace(about.st_dev, Disk{m.spill_write, m.spill_read, m.spill_busy});
  if (fresh) {
    const std::string path = fmt::format("{}.disk-{:x}", beside, about.st_dev);
    Disk disk;
    try {
      if (file_exists(path))
        std::sscanf(read_file(path).c_str(), "ebb-disk 2 write %lf read %lf busy %lf", &disk.write,
                    &disk.read, &disk.busy);
      if (!disk.sane() && measure_disk(directory, disk, room) && disk.sane()) {
        make_directories(path.substr(0, path.find_last_of('/')));
        write_file(path, fmt::format("ebb-disk 2\nwrite {:.17g}\nread {:.17g}\nbusy {:.17g}\n",
                                     disk.write, disk.read, disk.busy));
      }
    } catch (const Error&) {  // nothing can be written there: spilling will say so, if it is chosen
    }
    if (disk.sane()) at->second = disk;
  }
  std::tie(m.spill_write, m.spill_read, m.spill_busy) =
      std::tuple(at->second.write, at->second.read, at->second.busy);
  return m;
}

}  // namespace ebb::plan
