// The budget that --memory names, for commands that ask a model: it counts from the first byte that they read. Where
// it has no room for that, they go on without it until it is known how much would do, and refuse then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/train/job.hpp"

namespace ebb::app {

class AskedBudget {
 public:
  explicit AskedBudget(const std::string& memory);  // "", "none": none

  std::uint64_t bytes() const { return bytes_; }  // 0: none

  enum class Counts : bool { no, yes };  // no: what takes as little as there is
  // What is read before anything is compiled. What that takes, rounded up, since it depends a little on which thread
  // comes first, is part of the smallest budget which compile() names.
  template <class F>
  auto reading(F&& read, Counts counts = Counts::yes) {
    begin();
    try {
      auto result = read();
      end(counts);
      return result;
    } catch (const OutOfMemory&) {
      if (bytes_ == 0 || tries_) throw;
    }
    lift();
    auto result = read();
    end(counts);
    return result;
  }

  // f(), which reads rows and compiles what reads them. Where it is for the budget to say whether rows are in memory,
  // and they do not fit there, once more with the rows left in their files.
  template <class F>
  auto with_rows(train::Config& config, F&& f) {
    if (bytes_ == 0 || config.data.in_memory != train::InMemory::automatic) return f();
    const std::uint64_t before = least_bytes_;
    std::uint64_t smallest = ~std::uint64_t{0};  // with rows in memory
    try {
      tries_ = true;
      auto result = f();
      tries_ = false;
      return result;
    } catch (const BudgetTooSmall& e) {
      smallest = e.minimum;
    } catch (const OutOfMemory&) {
    }
    tries_ = false;
    restore(before);
    config.data.in_memory = train::InMemory::no;
    try {
      return f();
    } catch (const BudgetTooSmall& e) {
      throw too_small(std::min(smallest, e.minimum));
    }
  }

  // compile(options) within it. A shape is refused with what would do for itself; here, with what does for all.
  template <class F>
  auto compiling(CompileOptions options, F&& compile) {
    try {
      return compile(options);
    } catch (const BudgetTooSmall&) {
      if (bytes_ == 0) throw;
    }
    lift();
    options.memory = {};
    const auto whole = compile(options);
    throw too_small(smallest_budget());
  }

  // For what compiles nothing: `trial` takes as much as will be taken. Throws BudgetTooSmall with what it comes to,
  // a little more than the least, so that it is the same at the next start.
  void must_hold(const std::function<void()>& trial);

 private:
  void begin();
  void lift();
  void end(Counts counts);
  void restore(std::uint64_t least_bytes);
  BudgetTooSmall too_small(std::uint64_t smallest) const;

  std::uint64_t bytes_ = 0, reserve_ = 0, least_bytes_ = 0;
  bool tries_ = false;  // there is another way, should this one not fit
  Budget budget_;
  std::unique_ptr<LeastBudget> least_;
};

// A run, checkpoint or model that was trained, read within the budget. Where the command's own is empty, and the
// command is one that trains as the config says, that of the config counts when it compiles.
train::Job open_run(AskedBudget& budget, const std::string& directory, const std::string& memory,
                    train::Which which = train::Which::best);

}  // namespace ebb::app
