// An independent replay of a Schedule: it shares nothing with the search but the types.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "ebb/plan/search/search.hpp"

namespace ebb::plan {
namespace {

class Check {
 public:
  // What ends and is still being written is waited for: `at_once`, or with all that is written after
  // the same run, before memory is taken again.
  Check(const Graph& graph, const Schedule& schedule, const SpillCost& spill, bool at_once)
      : g_(graph),
        s_(schedule),
        spill_(spill),
        at_once_(at_once),
        end_(static_cast<Id>(schedule.steps.size()) - 1) {}

  // The seconds it takes. Throws where something is wrong.
  double all() {
    instances();
    for (Id at = 0; at <= end_; ++at) {
      const Step& step = s_.steps[at];
      switch (step.kind) {
        case Step::Kind::run:
          run(at, step);
          break;
        case Step::Kind::write:
          write(at, step);
          break;
        case Step::Kind::read:
          read(at, step);
          break;
      }
      for (Id k : ends_[at]) until_ = std::max(until_, written_at_[k]);
      const bool more = at < end_ && s_.steps[at + 1].kind == Step::Kind::write;
      if (at_once_ || !more) now_ = std::max(now_, until_);
    }
    finish();
    loads();
    return std::max(now_, channel_);
  }

 private:
  template <typename... Args>
  void require(bool good, fmt::format_string<Args...> format, Args&&... args) const {
    if (!good) throw std::logic_error(fmt::format(format, std::forward<Args>(args)...));
  }

  bool resident(const Instance& i) const { return i.first == 0 && i.last >= end_; }

  void instances() {
    const std::size_t count = s_.instances.size();
    full_.assign(count, false);
    changed_.assign(count, false);
    ready_.assign(count, 0);
    written_at_.assign(count, 0);
    ends_.resize(s_.steps.size());
    runs_.assign(g_.nodes.size(), 0);
    updated_.assign(g_.buffers.size(), false);
    in_file_.assign(g_.buffers.size(), false);
    std::vector<int> still(g_.buffers.size(), 0);
    std::vector<bool> born(count, false);
    for (const Step& step : s_.steps) {
      for (Id k : step.out) born.at(k) = true;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const Instance& i = s_.instances[k];
      const Origin origin = g_.buffers.at(i.buffer).origin;
      require(i.first >= 0 && i.first <= i.last && i.last <= std::max<Id>(end_, 0),
              "instance {} lives from {} to {}", k, i.first, i.last);
      if (!born[k]) {
        require(origin != Origin::made, "instance {} is made by no step", k);
        require(resident(i), "instance {} of a buffer that stays ends at {}", k, i.last);
        full_[k] = true;
        ++still[i.buffer];
      } else {
        require(origin != Origin::given, "instance {} of a given buffer is made", k);
      }
      if (end_ >= 0) ends_[i.last].push_back(static_cast<Id>(k));
    }
    for (std::size_t b = 0; b < g_.buffers.size(); ++b) {
      const Origin origin = g_.buffers[b].origin;
      if (origin == Origin::given) require(still[b] == 1, "given buffer {} is not there", b);
      if (origin == Origin::state) {
        require(still[b] <= (g_.buffers[b].away ? 0 : 1), "state {} is in memory twice", b);
        require(
            still[b] == 1 || (spill_.allowed && spill_.state_allowed && g_.buffers[b].spillable),
            "state {} has left memory", b);
        in_file_[b] = still[b] == 0;
      }
    }
  }

  const Instance& use(Id at, Id k, Id buffer) {
    require(k >= 0 && k < static_cast<Id>(s_.instances.size()), "step {} names instance {}", at, k);
    const Instance& i = s_.instances[k];
    require(i.buffer == buffer, "step {} takes buffer {} for buffer {}", at, i.buffer, buffer);
    require(i.first <= at && at <= i.last, "step {} uses instance {} of {} … {}", at, k, i.first,
            i.last);
    require(full_[k], "step {} uses instance {} before it is made", at, k);
    require(!updated_[buffer], "step {} reads state {} after its update", at, buffer);
    now_ = std::max(now_, ready_[k]);
    return i;
  }

  void make(Id at, Id k, Id buffer) {
    const Instance& i = s_.instances.at(k);
    require(i.buffer == buffer && i.first == at && !full_[k], "step {} makes instance {} wrongly",
            at, k);
    full_[k] = true;
  }

  void run(Id at, const Step& step) {
    const Node& node = g_.nodes.at(step.node);
    require(step.in.size() == node.in.size() && step.out.size() == node.out.size() &&
                step.updates.size() == node.updates.size(),
            "step {} does not fit node {}", at, step.node);
    for (std::size_t k = 0; k < node.in.size(); ++k) use(at, step.in[k], node.in[k]);
    for (std::size_t k = 0; k < node.updates.size(); ++k) {
      use(at, step.updates[k], node.updates[k]);
    }
    require(++runs_[step.node] == 1 || (node.again && node.updates.empty()),
            "node {} may not run again", step.node);
    recomputed_ += runs_[step.node] > 1;
    now_ += seconds_of(node, at, step.scratch);
    for (std::size_t k = 0; k < node.updates.size(); ++k) {
      updated_[node.updates[k]] = true;
      changed_[step.updates[k]] = true;
    }
    for (std::size_t k = 0; k < node.out.size(); ++k) {
      make(at, step.out[k], node.out[k]);
      const Instance& made = s_.instances[step.out[k]];
      if (made.takes == kNone) continue;
      const Instance& taken = s_.instances.at(made.takes);
      const Buffer& from = g_.buffers[taken.buffer];
      require(k == 0 && taken.buffer == node.reuse && taken.last == at &&
                  from.origin == Origin::made && !from.kept &&
                  g_.buffers[made.buffer].bytes <= from.bytes &&
                  std::find(step.in.begin(), step.in.end(), made.takes) != step.in.end(),
              "step {} takes over bytes it may not", at);
    }
  }

  double seconds_of(const Node& node, Id at, std::uint64_t scratch) const {
    if (scratch == node.scratch) return node.seconds;
    for (const Tile& tile : node.tiles)
      if (tile.scratch == scratch) return tile.seconds;
    require(false, "step {} runs with {} bytes of scratch, which its node knows nothing of", at,
            scratch);
    return 0;
  }

  double transfer(double seconds) {
    now_ += spill_.seconds_per_transfer + spill_.busy * seconds;
    channel_ = std::max(channel_, now_) + seconds;
    return channel_;
  }

  void write(Id at, const Step& step) {
    const Id k = step.in.at(0);
    const Instance& i = s_.instances.at(k);
    const Buffer& buffer = g_.buffers[i.buffer];
    require(full_[k] && i.first <= at && at <= i.last, "step {} writes instance {} of {} … {}", at,
            k, i.first, i.last);
    require(buffer.spillable && spill_.allowed, "step {} writes what may not leave", at);
    if (buffer.origin == Origin::state) {
      require(changed_[k], "step {} writes state that has not changed", at);
      changed_[k] = false;
    } else {
      require(buffer.origin == Origin::made, "step {} writes a given buffer", at);
      in_file_[i.buffer] = true;
    }
    now_ = std::max(now_, ready_[k]);
    written_at_[k] = transfer(static_cast<double>(buffer.bytes) * spill_.write_seconds_per_byte);
    written_ += buffer.bytes;
  }

  void read(Id at, const Step& step) {
    const Id k = step.out.at(0), b = s_.instances.at(k).buffer;
    require(in_file_[b], "step {} reads buffer {}, which is not in the file", at, b);
    require(!updated_[b], "step {} reads state {} after its update", at, b);
    make(at, k, b);
    ready_[k] = transfer(static_cast<double>(g_.buffers[b].bytes) * spill_.read_seconds_per_byte);
    read_ += g_.buffers[b].bytes;
  }

  void finish() {
    for (std::size_t n = 0; n < runs_.size(); ++n) require(runs_[n] > 0, "node {} never runs", n);
    for (std::size_t k = 0; k < s_.instances.size(); ++k) {
      const Instance& i = s_.instances[k];
      require(full_[k], "instance {} is never made", k);
      require(!changed_[k] || !in_file_[i.buffer], "state {} is lost after its update", i.buffer);
    }
    for (std::size_t b = 0; b < g_.buffers.size(); ++b) {
      if (!g_.buffers[b].kept) continue;
      const auto here = [&](const Instance& i) {
        return i.buffer == static_cast<Id>(b) && i.last >= end_;
      };
      require(std::any_of(s_.instances.begin(), s_.instances.end(), here),
              "kept buffer {} is gone at the end", b);
    }
    require(recomputed_ == s_.recomputed, "{} nodes run again, not {}", recomputed_, s_.recomputed);
    require(written_ == s_.written && read_ == s_.read,
            "{} bytes written and {} read, not {} and {}", written_, read_, s_.written, s_.read);
  }

  void loads() const {
    std::vector<std::int64_t> load(s_.steps.size() + 1, 0);
    auto live = static_cast<std::int64_t>(g_.held), most = std::int64_t{0};
    for (const Instance& i : s_.instances) {
      const auto bytes = static_cast<std::int64_t>(g_.buffers[i.buffer].bytes);
      load[i.first] += bytes;
      if (end_ >= 0) load[i.last + 1] -= bytes;
    }
    if (end_ < 0) most = live + load[0];
    for (Id at = 0; at <= end_; ++at) {
      live += load[at];
      std::int64_t here = live;
      const Step& step = s_.steps[at];
      if (step.kind == Step::Kind::run) {
        here += static_cast<std::int64_t>(step.scratch);
        for (Id k : step.out) {
          const Instance& i = s_.instances[k];
          if (i.takes != kNone) here -= static_cast<std::int64_t>(g_.buffers[i.buffer].bytes);
        }
      }
      most = std::max(most, here);
    }
    require(static_cast<std::uint64_t>(most) == s_.load, "its load is {}, not {}", most, s_.load);
  }

  const Graph& g_;
  const Schedule& s_;
  const SpillCost& spill_;
  const bool at_once_;
  const Id end_;
  double now_ = 0, channel_ = 0, until_ = 0;
  std::uint64_t recomputed_ = 0, written_ = 0, read_ = 0;
  std::vector<bool> full_, changed_, updated_, in_file_;
  std::vector<double> ready_, written_at_;
  std::vector<std::vector<Id>> ends_;  // instances by last step
  std::vector<int> runs_;
};

}  // namespace

std::string check(const Graph& graph, const Schedule& schedule, const SpillCost& spill) {
  try {
    // A schedule does not say which of its writes are waited for at once.
    const double most = Check(graph, schedule, spill, true).all();
    const double least = Check(graph, schedule, spill, false).all();
    const double rounding = 1e-9 * (1 + most);
    if (schedule.seconds < least - rounding || schedule.seconds > most + rounding)
      return fmt::format("it takes {} to {} s, not {} s", least, most, schedule.seconds);
    return {};
  } catch (const std::exception& wrong) {
    return wrong.what();
  }
}

}  // namespace ebb::plan
