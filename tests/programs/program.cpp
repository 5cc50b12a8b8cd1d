#include "tests/programs/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "ebb/base/rng.hpp"
#include "models/fields.hpp"
#include "models/memory_group.hpp"
#include "models/pieces.hpp"
#include "tests/programs/zoo.hpp"

namespace ebb::programs {
namespace {

class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes)
      hash_ = (hash_ ^ std::to_integer<std::uint64_t>(b)) * 1099511628211u;
  }
  void add(const Loss& loss) {
    const float sum = static_cast<float>(loss.sum.item());
    add(std::as_bytes(std::span(&sum, 1)));
  }
  void add(const std::vector<Variable>& all) {
    zoo::each_piece(all, [this](std::span<const std::byte> part) { add(part); });
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 14695981039346656037u;
};

// A model with its optimizer, data and compiled functions.
struct Trained {
  Subject subject;
  optim::AdamW adam;
  std::optional<optim::Ema> ema;
  Dataset data, held_out;
  std::optional<Step<Loss>> step, evaluation;

  Trained(const Program& p, const std::string& kind, std::uint64_t seed)
      : subject(make(kind, seed)),
        adam(subject.params, {.lr = 1e-3}),
        data(data_for(kind, p.rows, seed)
                 .shuffle(seed)
                 .batch(p.batch)
                 .prefetch(static_cast<int>(p.prefetch))),
        held_out(data_for(kind, p.rows / 2 + 3, seed + 1).batch(p.batch)) {
    if (p.clips) adam.clip_norm(1);
    if (p.averages) ema.emplace(subject.params, 0.9);
  }

  CompileOptions options(const Program& p) const {
    CompileOptions o{.allow = Allow::same_bits, .spill = p.spill};
    if (p.budget) o.memory = ByteSize{p.budget};
    return o;
  }
  void compile_step(const Program& p) {
    step = compile(data.spec(), options(p), [this](const Batch& b) {
      const Loss loss = adam.minimize(subject.loss(b));
      if (ema) ema->update();
      return loss;
    });
  }
  void compile_evaluation(const Program& p) {
    const nn::Evaluation quiet;
    evaluation = compile(held_out.spec(), options(p), [this](const Batch& b) {
      const nn::Evaluation quiet;
      return subject.loss(b);
    });
  }
  void save_and_load(const std::string& path) {
    if (ema) {
      save(path, subject.variables, adam, *ema);
      load(path, subject.variables, adam, *ema);
    } else {
      save(path, subject.variables, adam);
      load(path, subject.variables, adam);
    }
  }
};

Outcome run_here(const Program& p) {
  Outcome out;
  const std::string path = fmt::format("/var/tmp/ebb-program-{}.safetensors", getpid());
  try {
    if (p.threads) pool::set_threads(static_cast<int>(p.threads));
    random::seed(p.seed);
    std::vector<std::unique_ptr<Trained>> all;
    all.push_back(std::make_unique<Trained>(p, p.model, p.seed));
    if (!p.second.empty()) all.push_back(std::make_unique<Trained>(p, p.second, p.seed + 5));
    std::optional<memory::Room> room;
    if (p.own) room.emplace((static_cast<std::uint64_t>(p.own) << 10) * 9 / 8 + 65536);
    if (p.evaluate == "before") all[0]->compile_evaluation(p);
    for (auto& t : all) t->compile_step(p);
    if (p.evaluate == "after") all[0]->compile_evaluation(p);
    out.minimum = smallest_budget();
    out.plan = all[0]->step->plan().chosen.text();
    if (!p.ask) {
      Digest digest;
      for (std::int64_t epoch = 0; epoch < p.epochs; ++epoch) {
        for (auto& t : all)
          for (const Batch& b : t->data.epoch(epoch)) {
            if (p.grows && epoch == 0 && b.rows() > 1) {
              std::vector<Tensor> half;
              for (const Tensor& column : b.values()) half.push_back(column.rows(0, b.rows() / 2));
              digest.add((*t->step)(Batch(b.shared_names(), std::move(half))));
            } else {
              digest.add((*t->step)(b));
            }
            ++out.steps;
          }
        if (p.own) {
          const Tensor mine = Tensor::full({p.own, 256}, 1);
          digest.add({mine.raw(), 64});
        }
        if (all[0]->evaluation)
          for (const Batch& b : all[0]->held_out.epoch(0)) digest.add((*all[0]->evaluation)(b));
        if (p.save) all[0]->save_and_load(path);
      }
      for (auto& t : all) {
        digest.add(t->subject.variables);
        digest.add(t->adam.state());
        if (t->ema) digest.add(t->ema->state());
      }
      out.digest = digest.text();
    }
  } catch (const BudgetTooSmall& e) {
    out.refused = true;
    out.minimum = e.minimum;
    out.error = e.what();
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  std::filesystem::remove(path);
  out.peak = process::peak_resident();
  return out;
}

}  // namespace

Program drawn(std::uint64_t seed) {
  std::uint64_t place = 0;
  const auto below = [&](std::uint64_t bound) { return draw64(Key{seed, 1}, 9, place++) % bound; };
  const auto coin = [&] { return below(2) == 1; };
  Program p;
  p.seed = seed;
  p.model = kinds()[below(kinds().size())];
  p.batch = static_cast<std::int64_t>(2 + below(15));
  p.rows = static_cast<std::int64_t>(20 + below(60));
  p.epochs = 2;
  p.prefetch = coin() ? static_cast<std::int64_t>(1 + below(8)) : 0;
  p.threads = static_cast<std::int64_t>(1 + below(2));
  const char* const when[] = {"no", "before", "after"};
  p.evaluate = when[below(3)];
  if (below(4) == 0) p.second = kinds()[below(kinds().size())];
  p.own = coin() ? static_cast<std::int64_t>(1 + below(6000)) : 0;
  p.save = coin();
  p.grows = coin();
  p.clips = coin();
  p.averages = below(4) == 0;
  p.spill = below(5) != 0;
  return p;
}

std::string line(const Program& program) {
  std::string text = "programs_tests --program";
  for (const std::string& a : zoo::to_arguments(program)) text += " " + a;
  return text;
}

Outcome run(const Program& program) {
  const MemoryGroup group(program.budget);
  std::vector<std::string> arguments = zoo::to_arguments(program);
  arguments.insert(arguments.begin(), {"/proc/self/exe", "--program"});
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) throw Error("no pipe for a program");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Error("no process for a program");
  if (child == 0) {
    if (!group.enter()) _exit(126);
    dup2(pipes[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipes[1]);
  std::string said;
  for (char c; read(pipes[0], &c, 1) == 1;) said += c;
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  Outcome out = zoo::from_line<Outcome>(said);
  out.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (!out.killed && status != 0) out.error = fmt::format("it ended with status {}", status);
  out.unlimited = group.why();
  return out;
}

bool is_program(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--program") != 0) return false;
  std::puts(zoo::to_line(run_here(zoo::from_arguments<Program>(argc - 2, argv + 2))).c_str());
  return true;
}

}  // namespace ebb::programs
