#include "ebb/dist/world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "ebb/base/process.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/base/timeline.hpp"
#include "ebb/dist/alert.hpp"
#include "ebb/dist/collectives.hpp"
#include "ebb/dist/identity.hpp"
#include "ebb/dist/open.hpp"
#include "ebb/dist/post.hpp"
#include "ebb/dist/watch.hpp"

namespace ebb::dist {
namespace {

constexpr double kCloseSeconds = 5;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// Of Open MPI, and for each rank on this host memory that it shares with that. It is most when it is opened,
// 10 to 12.5 MiB, half of it code that has done its work then; 5 to 7 MiB stay. As the program holds little
// else yet, this covers both (tests/dist/programs_test.cpp measures it).
constexpr std::uint64_t kFootprint = 11 * kMiB, kFootprintOfRank = kMiB / 16, kStays = 6 * kMiB;

std::atomic<bool> had_one{false};

// In one piece, so that lines of several ranks do not mix.
void tell(const std::string& line) {
  const std::string text = "ebb: " + line + "\n";
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nobody is there to read it
}

std::string line_of(const std::exception_ptr& failed) {
  try {
    std::rethrow_exception(failed);
  } catch (const std::exception& e) {
    return std::string(e.what()).substr(0, 2000);
  } catch (...) {
    return "an exception of a type of its own";
  }
}

std::string at_step(std::int64_t step) {
  return step < 0 ? "before its first step" : fmt::format("at step {}", step);
}

}  // namespace

// What a world of several has.
class World::Job {
 public:
  Job(const Post::Open& open, const Options& options, bool real, const std::function<void()>& late)
      : real_(real), post(open, options.start_seconds, late), collectives(post) {
    watch.emplace(post.rank(), post.size(),
                  WatchOptions{options.beat_seconds, options.silence_seconds});
    if (real) alert_.emplace([this] { after_alert(); });
  }

  // Beats, and listens, from now on; who is lost is named with these hosts.
  void begin(const std::vector<std::string>& hosts) {
    {
      const std::lock_guard lock(hosts_lock_);
      hosts_ = hosts;
    }
    post.set_turn([this](Transport& transport, double now) { turn(transport, now); });
  }

  // By an exception, or another end that the rest does not share.
  void leave_alone(const std::string& how) {
    if (!lost) {
      tell(fmt::format("rank {} of {} on {} {} {}; the job ends", post.rank(), post.size(),
                       post.host(), how, at_step(watch->step())));
      watch->end();
      for (int i = 0; i < 50 && !watch->told(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    post.set_turn(nullptr);
  }

  void leave_together() {
    collectives.vote(true, "the end of the world");
    leaving_ = true;
    post.set_turn(nullptr);
    post.close(kCloseSeconds, [this] {
      if (!real_) return;
      tell(fmt::format("rank {} of {}: the others did not end within {} s; the job ends",
                       post.rank(), post.size(), kCloseSeconds));
      ::_exit(1);
    });
  }

  // Of the end of main, where no exception is on its way.
  void leave() {
    try {
      leave_together();
    } catch (const std::exception& e) {
      leave_alone(fmt::format("ends its world ({})", e.what()));
      if (!real_) return;
      std::fflush(nullptr);
      ::_exit(1);  // it has not done what it was to do
    }
  }

 private:
  void turn(Transport& transport, double now) {
    const auto found = watch->turn(transport, now, post.waited_for(), real_ && Alert::taken());
    if (!found) return;
    give_up(*found);
    if (found->ends_job) transport.abort(1);
  }

  // Where a connection to the dead rank breaks in the middle of a message, Open MPI ends this process by itself,
  // and waits for the launcher first, in the thread that would have told. Of two ranks it is clear who was lost.
  void after_alert() {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::uint64_t turns = post.turns();
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    if (post.size() != 2 || post.turns() != turns || leaving_) return;
    give_up({watch->before(), watch->heard_step(), "it has died or cannot be reached", false});
  }

  void give_up(const Watch::Finding& found) {
    const std::lock_guard lock(hosts_lock_);
    const std::vector<std::string>& hosts = hosts_;
    const std::string& host = hosts[static_cast<std::size_t>(found.rank)];
    const std::string line =
        fmt::format("rank {} of {} on {} is lost {}: {}; the job ends", found.rank, hosts.size(),
                    host, at_step(found.step), found.what.empty() ? "it ended" : found.what);
    if (!lost.exchange(true) && !found.what.empty()) tell(line);
    post.fail(std::make_exception_ptr(RankLost(found.rank, host, found.step, line)));
  }

  const bool real_;                    // processes, not threads of a test
  std::atomic<bool> leaving_ = false;  // all have said that they end: whoever is gone has done so
  std::mutex hosts_lock_;
  std::vector<std::string> hosts_;

 public:
  std::optional<Watch> watch;
  runtime::Share set_aside;
  const int exceptions = std::uncaught_exceptions();
  bool told = false;               // all ranks know why it ends
  std::atomic<bool> lost = false;  // some rank is
  Post post;                       // its thread uses all of the above
  Collectives collectives;

 private:
  std::optional<Alert> alert_;  // so does its
};

World::World(const Options& options) {
  const std::optional<Started> as = started();
  if (!as) {
    char name[256] = "localhost";
    ::gethostname(name, sizeof name - 1);
    hosts_ = {name};
    return;
  }
  if (had_one.exchange(true))
    throw OnEveryRank(
        "dist::World: this process has made one before; make it at the start of main, and "
        "hand it on",
        as->rank == 0);
  (void)runtime::reserve();   // without what is opened now
  Options patient = options;  // the first to give up ends the job for all: not all at once
  patient.start_seconds += 0.25 * std::min(as->rank, 8);
  job_ = std::make_unique<Job>(
      [&] { return open_plugin(*as); }, patient, true,
      [&] {
        tell(fmt::format("rank {} of {} did not meet the others within {} s; the job ends",
                         as->rank, as->size, options.start_seconds));
        ::_exit(1);
      });
  job_->set_aside.set(kFootprint);
  join();
}

World::World(const Open& open, const Options& options)
    : job_(std::make_unique<Job>(open, options, false, nullptr)) {
  join();
}

void World::join() {
  rank_ = job_->post.rank();
  size_ = job_->post.size();
  try {
    job_->begin(std::vector<std::string>(static_cast<std::size_t>(size_), "an unknown host"));
    hosts_ = gather(job_->post.host());
    const auto here = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host()));
    if (job_->set_aside.bytes()) {
      job_->set_aside.set(footprint_of(here));
      process::set_shared_by(here);
    }
    job_->begin(hosts_);
    check_same("version of Ebb", version());
    check_same("byte order", byte_order());
    check_same("program", program());
  } catch (...) {
    if (job_->told)
      job_->leave_together();
    else
      job_->leave_alone("does not start");
    throw;
  }
}

World::~World() {
  if (!job_) return;
  const bool thrown = std::uncaught_exceptions() > job_->exceptions;
  if (thrown && !job_->told)
    job_->leave_alone("leaves by an exception");
  else
    job_->leave();
}

void World::barrier() {
  if (job_) job_->collectives.vote(true, "a barrier");
}

bool World::agree(bool yes) {
  if (!job_) return yes;
  const timeline::Slice slice("a vote", timeline::Kind::wait);
  return job_->collectives.vote(yes, "a vote");
}

std::vector<std::string> World::gather(std::string_view mine) {
  if (!job_) return {std::string(mine)};
  return job_->collectives.gather(mine, "a gather");
}

std::string World::broadcast(std::string_view of_first) {
  if (!job_) return std::string(of_first);
  return job_->collectives.broadcast(of_first, "a broadcast");
}

void World::told_on_all() { job_->told = true; }

void World::together(const char* what, const std::exception_ptr& failed) {
  if (!job_) {
    if (failed) std::rethrow_exception(failed);
    return;
  }
  const timeline::Slice slice(what, timeline::Kind::wait);
  if (job_->collectives.vote(!failed, what)) {
    job_->told = false;
    set_told_by_another(false);
    set_told_as("");
    return;
  }
  const std::vector<std::string> all = gather(failed ? "x" + line_of(failed) : "");
  job_->told = true;
  int first = 0;
  while (all[static_cast<std::size_t>(first)].empty()) ++first;
  set_told_by_another(first != rank_);
  const std::string who = fmt::format("rank {} of {} on {}: ", first, size_, host(first));
  const bool by_all = std::none_of(all.begin(), all.end(), [](const auto& l) { return l.empty(); });
  set_told_as(by_all ? "" : who);
  if (failed) std::rethrow_exception(failed);
  throw FailedElsewhere(who + all[static_cast<std::size_t>(first)].substr(1), first);
}

void World::step_begins() {
  if (job_ && counted_steps_ >= 0) job_->watch->set_step(counted_steps_++);
}

void World::set_step(std::int64_t step) {
  counted_steps_ = -1;
  if (job_) job_->watch->set_step(step);
}
void World::expect_step(double seconds) {
  if (job_) job_->watch->expect(seconds);
}
Post* World::post() { return job_ ? &job_->post : nullptr; }
std::uint64_t World::footprint_of(int ranks_here) {
  return kFootprint + static_cast<std::uint64_t>(ranks_here) * kFootprintOfRank;
}
std::uint64_t World::lasting_footprint() { return kStays; }
std::uint64_t World::footprint() const { return job_ ? job_->set_aside.bytes() : 0; }

}  // namespace ebb::dist
