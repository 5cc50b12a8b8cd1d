// The processes that work on one thing together, and which of them this is.
//
//   int main() {
//     dist::World world;                     // under mpirun or srun: theirs; else a world of one
//     …
//     for (const Batch& b : data.part(world).epochs(3)) step(b);
//   }
//
// One program for any world. In a world of one nothing is opened, and everything below is done at once. A
// process makes one world, at the start of main, and hands it on.
//
// All ranks make the calls below in the same order. A rank that is lost (dead, stopped, cut off) ends the whole
// job within 10 s: it is named on stderr, with its host and step, and nothing is left running. A rank that
// leaves the world by an exception says so, and ends the others, too.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ebb/base/messages/ranks.hpp"
#include "ebb/dist/errors.hpp"

namespace ebb {
class Transport;
}

namespace ebb::dist {

class Post;

struct WorldOptions {
  double start_seconds = 60;   // within which all ranks must be there
  double beat_seconds = 0.5;   // between two signs of life
  double silence_seconds = 5;  // without one, after which a rank is lost
};

class World final : public Ranks {
 public:
  using Options = WorldOptions;
  World() : World(Options{}) {}
  explicit World(const Options& options);
  // By a transport of the caller's: tests.
  using Open = std::function<std::unique_ptr<Transport>()>;
  World(const Open& open, const Options& options);
  // All ranks leave together, so it waits for the others; but for an exception.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool first() const { return rank_ == 0; }  // who speaks, and writes what is written once
  const std::string& host() const { return hosts_[static_cast<std::size_t>(rank_)]; }
  const std::string& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

  void barrier();  // until all are here
  // Whether all have said yes: what is then done is done by all, or by none.
  bool agree(bool yes) override;
  // Small values: of all ranks, by rank; of the first one.
  std::vector<std::string> gather(std::string_view mine) override;
  std::string broadcast(std::string_view of_first);
  template <class T>
  requires std::is_trivially_copyable_v<T> std::vector<T> gather_values(const T& mine) {
    std::vector<T> values;
    for (const std::string& bytes : gather({reinterpret_cast<const char*>(&mine), sizeof mine})) {
      T value;
      std::memcpy(&value, bytes.data(), sizeof value);
      values.push_back(value);
    }
    return values;
  }

  // Refuses, by a Mismatch on all ranks, what is not the same on all: a config, the data, a plan. Of a text the first
  // lines are named that differ.
  void check_same(std::string_view name, std::string_view fingerprint) override;
  // What each has failed with, or null: where one has, all throw. The first speaks (OnEveryRank); its own is thrown
  // on a rank that has failed, and FailedElsewhere on the others.
  void together(const char* what, const std::exception_ptr& failed) override;

  // Where this rank is: what is told of it when it is lost. Until it is said, steps that ranks share are counted.
  void set_step(std::int64_t step) override;
  void step_begins() override;
  // How long a step takes; a rank that is busy with one for 20 times that ends the job. 0: however long.
  void expect_step(double seconds);

  Post* post();  // for messages of one's own; none in a world of one
  std::unique_ptr<Letter> letter_to(int rank, int tag, std::span<const std::byte> bytes) override;
  std::unique_ptr<Letter> letter_from(int rank, int tag, std::span<std::byte> bytes) override;
  // Bytes that the library for messages holds, set aside of a budget for as long as this lives.
  std::uint64_t footprint() const;
  static std::uint64_t footprint_of(int ranks_here);  // what that comes to, of so many on a host
  static std::uint64_t lasting_footprint();           // of it, what is held while steps run

 private:
  class Job;
  void join();
  void told_on_all();  // why it ends

  int rank_ = 0, size_ = 1;
  std::int64_t counted_steps_ = 0;  // -1: they are told
  std::vector<std::string> hosts_;
  std::unique_ptr<Job> job_;  // none: a world of one
};

}  // namespace ebb::dist
