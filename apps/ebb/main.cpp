// ebb: trains neural networks inside the memory it is given. Exit codes: 0 done, 2 bad input, 3 a budget that
// cannot be met, 1 anything else, 128 + n ended by signal n.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/usage.hpp"
#include "ebb/base/error.hpp"
#include "ebb/dist/errors.hpp"
#include "ebb/plan/plan.hpp"
#include "ebb/train/run/terminal.hpp"

namespace ebb::app {
namespace {

constexpr char kAbout[] =
    "trains neural networks inside the memory you give it\n\n"
    "You write a config and name a budget for the whole process. Ebb says first whether it fits, "
    "what the "
    "smallest budget is and what each way of fitting costs; then it trains, never above the "
    "budget, with the "
    "bits that it would have with all the memory in the world.";
constexpr char kExamples[] =
    "ebb init mlp first                         # a config that runs as it is\n"
    "ebb plan first/mlp.toml --memory 48MiB     # fits? how, at what cost?\n"
    "ebb train first/mlp.toml --memory 48MiB\n"
    "ebb resume runs/mlp --memory 2GiB          # the same bits in another budget\n";

// The first line of it, and that only as far as `end`.
std::string cut(std::string_view text, std::string_view end) {
  text = text.substr(0, text.find('\n'));
  return std::string(text.substr(0, text.find(end)));
}

// One line, whatever the error holds.
int first_line(const char* what, int code) { return complain(cut(what, "\n"), code); }

int asked_for(const CLI::App& app, const CLI::Success& what) {
  try {
    if (dynamic_cast<const CLI::CallForVersion*>(&what)) {
      print("ebb " EBB_VERSION "\n");
      return 0;
    }
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    print(help_text(describe(*at)));
    return 0;
  } catch (const Exit& e) {
    return e.code;
  }
}

int run(int count, char** arguments) {
  CLI::App app(kAbout, "ebb");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "what this does and takes, with examples");
  app.set_version_flag("--version", "ebb " EBB_VERSION, "which version this is");
  for (auto add : {add_init, add_doctor, add_plan, add_train, add_verify, add_eval, add_predict,
                   add_grad, add_generate, add_inspect, add_vocab, add_about})
    add(app);
  try {
    if (const std::string line = unknown_command(app, count, arguments); !line.empty())
      return complain(line, 2);
    app.parse(count, arguments);
    return 0;
  } catch (const CLI::Success& e) {
    return asked_for(app, e);
  } catch (const CLI::ParseError& e) {
    return complain(usage_line(app, e), 2);
  } catch (const Exit& e) {
    return e.code;
  } catch (const BudgetTooSmall& e) {
    const bool trains = app.got_subcommand("train") || app.got_subcommand("resume");
    return complain(cut(e.what(), "; ways to fit") +
                        (trains ? "; ebb plan shows what each way of fitting costs" : ""),
                    3);
  } catch (const OutOfMemory& e) {  // what would help a program's author is left out
    return complain(cut(e.what(), "; smaller batches") + "; more --memory would help", 3);
  } catch (const dist::RankLost&) {  // told by whoever has noticed it
    return 1;
  } catch (const dist::OnEveryRank& e) {
    return e.speaks() ? first_line(e.what(), 2) : 2;
  } catch (const Error& e) {
    return first_line(e.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain("out of memory: the system gives no more", 1);
  } catch (const std::exception& e) {
    return first_line(e.what(), 1);
  }
}

}  // namespace
}  // namespace ebb::app

int main(int count, char** arguments) {
  ebb::train::open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone away is seen where it is written to
  return ebb::app::run(count, arguments);
}
