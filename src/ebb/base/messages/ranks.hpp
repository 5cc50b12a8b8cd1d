// The processes of a job (its ranks) as planning and running a step know them. dist::World is one; who stands
// below dist/ knows only this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

class Ranks {
 public:
  // Sent or received again and again, always the same bytes. While it is under way, nobody touches them.
  class Letter {
   public:
    virtual ~Letter() = default;
    virtual void start() = 0;
    virtual void wait() = 0;  // until it is over; an Error where the other is lost
  };

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Of one tag, letters come in the order in which they are sent.
  virtual std::unique_ptr<Letter> letter_to(int rank, int tag,
                                            std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Letter> letter_from(int rank, int tag, std::span<std::byte> bytes) = 0;

  // All ranks come here, each with what it has failed with, or null. Comes back where none has; else it throws
  // on every rank: its own, or what names the first that has one. `what`, a literal, is the same on all ranks.
  virtual void together(const char* what, const std::exception_ptr& failed) = 0;
  virtual bool agree(bool yes) = 0;                                    // whether all have said yes
  virtual std::vector<std::string> gather(std::string_view mine) = 0;  // small values, by rank
  // Refuses, on all ranks, what is not the same on all.
  virtual void check_same(std::string_view name, std::string_view fingerprint) = 0;
  // Where this rank is, should it be lost: another step; this one, from which on steps are not counted any more.
  virtual void step_begins() = 0;
  virtual void set_step(std::int64_t step) = 0;

 protected:
  ~Ranks() = default;
};

// f(); none goes on unless it has worked on all ranks. Null: this process is alone.
template <class F>
void together(Ranks* ranks, const char* what, F&& f) {
  if (!ranks) return f();
  std::exception_ptr failed;
  try {
    f();
  } catch (...) {
    failed = std::current_exception();
  }
  ranks->together(what, failed);
}

}  // namespace ebb
