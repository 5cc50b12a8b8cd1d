#include "apps/ebb/plan_processes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/simulate.hpp"
#include "ebb/dist/world.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/train/job.hpp"

namespace ebb::app {
namespace {

constexpr int kMostProcesses = 1024;

// "1,2,8". Why it is none; "": it is.
std::string read_counts(const std::string& text, std::vector<int>& into) {
  into.clear();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    int count = 0;
    if (!CLI::detail::lexical_cast(word, count) || count < 1 || count > kMostProcesses)
      return fmt::format("\"{}\" is no number from 1 to {}; write one or several, such as 1,2,8",
                         word, kMostProcesses);
    into.push_back(count);
    at = end + 1;
  }
  return {};
}

struct Network {
  plan::Network of;
  bool measured = false;  // on this machine, where all processes then are
};

Network network_of(const AskedProcesses& asked, const std::vector<int>& counts) {
  Network n;
  if (!asked.network.empty()) {
    n.of = plan::parse_network(asked.network);
    return n;
  }
  n.measured = true;
  const bool alone = std::all_of(counts.begin(), counts.end(), [](int c) { return c == 1; });
  if (!alone && !plan::known_network({}, n.of))
    throw Error(
        "plan: how fast messages are here is not known; ebb doctor --network measures it, or say "
        "--network 10Gbit/s,50us");
  return n;
}

// What one number of processes takes.
struct Outlook {
  int processes = 1, threads = 1;
  std::int64_t rows = 0;                  // of the first rank, which has the most
  std::optional<std::uint64_t> smallest;  // the budget does not do, and this does
  std::uint64_t peak = 0, minimum = 0;    // of a rank
  double run_seconds = 0;
  dist::Simulated step;
  std::uint64_t sent() const {  // by the rank that sends most
    std::uint64_t most = 0;
    for (const dist::Simulated::Rank& r : step.ranks) most = std::max(most, r.sent);
    return most;
  }
};

class Outlooks {
 public:
  Outlooks(const ConfigFlags& flags, const AskedProcesses& asked) : config_(flags.load()) {
    if (const std::string why = read_counts(asked.counts, counts_); !why.empty()) throw Error(why);
    network_ = network_of(asked, counts_);
    per_host_ = asked.per_host > 0 || network_.measured ? asked.per_host : 1;
    mind_limit(config_);
  }

  std::vector<Outlook> all() {
    std::vector<Outlook> found;
    for (const int count : counts_) found.push_back(of(count));
    return found;
  }
  const Network& network() const { return network_; }
  int per_host(int processes) const {
    return per_host_ > 0 ? std::min(per_host_, processes) : processes;
  }
  std::int64_t examples() const { return examples_; }

 private:
  Outlook of(int processes) {
    Outlook o;
    o.processes = processes;
    const int here = per_host(processes);
    train::Config config = config_;
    if (config.train.threads == 0) config.train.threads = dist::threads_of_each(here);
    o.threads = static_cast<int>(config.train.threads);
    runtime::Share messages;
    if (processes > 1) {
      (void)runtime::reserve();  // without what is opened for messages
      messages.set(dist::World::footprint_of(here));
    }
    try {
      plan_and_simulate(config, o, here);
    } catch (const BudgetTooSmall& e) {  // who is planned first does not know what the others take
      config.memory.budget = {.kind = train::BudgetConfig::Kind::none};
      Outlook free = o;
      plan_and_simulate(config, free, here);
      o.smallest = std::max(e.minimum, free.minimum);
    }
    return o;
  }

  // Ranks differ by the number of their rows; of that there are two, those of the first and of the last.
  void plan_and_simulate(const train::Config& config, Outlook& o, int here) {
    train::Job job(config, train::Opening::shape);
    std::vector<dist::Timetable> tables(static_cast<std::size_t>(o.processes));
    for (const int rank : {0, o.processes - 1}) {
      dist::PaperRank paper(rank, o.processes);
      job.world = &paper;
      const auto trainer = job.trainer("", false);
      o.minimum = std::max(o.minimum, smallest_budget());
      o.peak = std::max(o.peak, trainer->plan().forecast.process +
                                    (o.processes > 1 ? dist::World::lasting_footprint() : 0));
      examples_ = trainer->plan().examples;
      const auto rows = [&](int r) { return data::Part{r, o.processes}.rows(examples_); };
      if (rank == 0) o.rows = rows(0);
      for (int r = 0; r < o.processes; ++r)
        if (rows(r) == rows(rank) && tables[static_cast<std::size_t>(r)].entries.empty())
          tables[static_cast<std::size_t>(r)] =
              dist::timetable(trainer->step_plan(), r, o.processes);
    }
    job.world = nullptr;
    if (!warned_) warn(job.data->notes);
    warned_ = true;
    dist::Cluster cluster = dist::cluster_of(plan::this_machine(), here);
    cluster.between = network_.of;
    if (network_.measured) cluster.within = network_.of;
    o.step = dist::simulate(tables, cluster);
    o.run_seconds = o.step.seconds * static_cast<double>(job.length.steps);
  }

  train::Config config_;
  std::vector<int> counts_;
  Network network_;
  int per_host_ = 0;  // 0: all of them
  std::int64_t examples_ = 0;
  bool warned_ = false;
};

nlohmann::json json_of(const Outlook& o) {
  nlohmann::json all = {{"processes", o.processes},
                        {"threads", o.threads},
                        {"fits", !o.smallest},
                        {"smallest_budget", o.smallest ? *o.smallest : o.minimum}};
  if (o.smallest) return all;
  all["rows"] = o.rows;
  all["seconds"] = o.step.seconds;
  all["run_seconds"] = o.run_seconds;
  all["waiting"] = o.step.waiting();
  all["exposed"] = o.step.exposed();
  all["sent"] = o.sent();
  all["messages"] = o.step.messages;
  all["peak"] = o.peak;
  all["ranks"] = nlohmann::json::array();
  for (const dist::Simulated::Rank& r : o.step.ranks)
    all["ranks"].push_back(
        {{"busy", r.busy}, {"waiting", r.waiting}, {"exposed", r.exposed}, {"sent", r.sent}});
  return all;
}

std::string percent(double part, bool any) {
  return any ? fmt::format("{:.1f}%", part * 100) : "–";
}

std::string table(const std::vector<Outlook>& all) {
  std::string text = fmt::format("{:>9} {:>7} {:>8} {:>12} {:>9} {:>8} {:>8} {:>13} {:>13}\n",
                                 "processes", "threads", "rows", "time a step", "speed-up",
                                 "waiting", "exposed", "sent by each", "peak of each");
  const auto to = std::back_inserter(text);
  const Outlook* first = nullptr;
  for (const Outlook& o : all) {
    fmt::format_to(to, "{:>9} {:>7} ", o.processes, o.threads);
    if (o.smallest) {
      fmt::format_to(to, "does not fit: the smallest budget is {} ({} bytes)\n",
                     plan::enough(*o.smallest), *o.smallest);
      continue;
    }
    if (!first) first = &o;
    const bool several = o.processes > 1;
    fmt::format_to(to, "{:>8} {:>12} {:>9.2f} {:>8} {:>8} {:>13} {:>13}\n", o.rows,
                   readable_time(o.step.seconds), first->step.seconds / o.step.seconds,
                   percent(o.step.waiting(), several), percent(o.step.exposed(), several),
                   several ? ebb::to_string(ByteSize{o.sent()}) : "–",
                   ebb::to_string(ByteSize{o.peak}));
  }
  return text;
}

}  // namespace

void add_asked_processes(CLI::App& command, AskedProcesses& asked) {
  CLI::Option* counts =
      command
          .add_option("--processes", asked.counts,
                      "what so many processes would take, or several numbers of them: 1,2,8")
          ->type_name(value::kNumber)
          ->check(CLI::Validator(
              [](std::string& text) {
                std::vector<int> ignored;
                return read_counts(text, ignored);
              },
              ""));
  command
      .add_option(
          "--network", asked.network,
          "between them: its speed, and the time of a message, 10Gbit/s,50us, with one process "
          "on each machine; else all on this one, as ebb doctor --network has measured it")
      ->type_name(value::kText)
      ->needs(counts)
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            try {
              (void)plan::parse_network(text);
              return {};
            } catch (const Error& e) {
              return e.what();
            }
          },
          ""));
  command.add_option("--per-host", asked.per_host, "so many of them on each machine")
      ->type_name(value::kNumber)
      ->needs(counts)
      ->check(number_from(1, kMostProcesses));
}

void plan_processes(const ConfigFlags& flags, const AskedProcesses& asked, bool json) {
  Outlooks outlooks(flags, asked);
  const std::vector<Outlook> all = outlooks.all();
  const Network& network = outlooks.network();
  const bool several =
      std::any_of(all.begin(), all.end(), [](const Outlook& o) { return o.processes > 1; });
  if (json) {
    nlohmann::json out = {{"examples", outlooks.examples()},
                          {"processes", nlohmann::json::array()}};
    if (several)
      out["network"] = {{"seconds_per_message", network.of.seconds_per_message},
                        {"bytes_per_second", network.of.bytes_per_second},
                        {"measured", network.measured}};
    for (const Outlook& o : all) {
      out["processes"].push_back(json_of(o));
      out["processes"].back()["per_host"] = outlooks.per_host(o.processes);
    }
    print(out.dump() + "\n");
  } else {
    print(table(all));
    if (several)
      print(fmt::format(
          "{}: {}\nwaiting: of the time of all, for each other and for messages; exposed: of it, "
          "while a\nmessage is on its way\n",
          network.measured ? "on this machine, as ebb doctor --network has found it"
                           : "on machines like this one, between them",
          plan::readable(network.of)));
  }
  for (const Outlook& o : all)
    if (o.smallest)
      throw Exit{complain(
          fmt::format("{}: the budget is too small for {} process{}: the smallest that does is {} "
                      "({} bytes)",
                      flags.config, o.processes, o.processes == 1 ? "" : "es",
                      plan::enough(*o.smallest), *o.smallest),
          3)};
}

}  // namespace ebb::app
