#include "tests/apps/command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

namespace ebb::test {
namespace {

namespace fs = std::filesystem;

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void to_file(const std::string& path, int descriptor) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, descriptor);
  ::close(file);
}

bool length_is_said(const std::string& lines) {
  return lines.find("epochs") != lines.npos || lines.find("steps") != lines.npos;
}

template <class T>
std::string npy_of(const char* type, const std::vector<std::int64_t>& shape,
                   const std::vector<T>& values) {
  std::string dims;
  for (const std::int64_t n : shape) dims += std::to_string(n) + ",";
  std::string head =
      std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  head.resize((head.size() + 11 + 63) / 64 * 64 - 11, ' ');
  head += '\n';
  std::string all = std::string("\x93NUMPY\x01\x00", 8);
  all += static_cast<char>(head.size() & 0xff);
  all += static_cast<char>(head.size() >> 8);
  all += head;
  all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return all;
}

}  // namespace

Commands::Commands() {
  std::string name = (fs::temp_directory_path() / "ebb-apps-XXXXXX").string();
  folder_ = ::mkdtemp(name.data());
}
Commands::~Commands() { fs::remove_all(folder_); }

Commands::Running Commands::start(const std::vector<std::string>& arguments) {
  static int number = 0;
  const std::string at = folder_ + "." + std::to_string(number++);
  Running r{0, at + ".out", at + ".err"};
  std::vector<std::string> words = arguments;
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  raw.push_back(nullptr);
  r.pid = ::fork();
  if (r.pid == 0) {
    ::alarm(60);  // whatever hangs fails here, and not the whole test run
    to_file(r.out, 1);
    to_file(r.err, 2);
    ::setenv("EBB", EBB_BINARY, 1);
    ::unsetenv("COLUMNS");
    if (::chdir(folder_.c_str()) == 0) ::execvp(raw[0], raw.data());
    ::_exit(127);
  }
  return r;
}

Ran Commands::wait_for(const Running& r) {
  int status = 0;
  ::waitpid(r.pid, &status, 0);
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = content_of(r.out);
  ran.err = content_of(r.err);
  fs::remove(r.out);
  fs::remove(r.err);
  return ran;
}

Ran Commands::ebb(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {EBB_BINARY};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return wait_for(start(all));
}

Ran Commands::shell(const std::string& line) { return wait_for(start({"bash", "-c", line})); }

bool Commands::appears(const std::string& name, const std::string& text) {
  for (int i = 0; i < 4000; ++i) {
    if (fs::exists(path(name)) && (text.empty() || content(name).find(text) != std::string::npos))
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

Ran Commands::train_too_fast(const std::string& rate, const std::string& save,
                             const std::string& out) {
  put("c.toml",
      small_config("steps = 12\noptimizer = \"sgd\"\nbad_steps = 2\nlr = " + rate + "\n") +
          "[every]\nsave = " + save + "\n");
  return ebb({"train", "c.toml", "--out", out, "-q"});
}

std::string Commands::content(const std::string& name) const { return content_of(path(name)); }

void Commands::put(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
}

std::vector<std::string> Commands::files() const {
  std::vector<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    all.push_back(fs::relative(entry.path(), folder_).string());
  std::sort(all.begin(), all.end());
  return all;
}

std::map<std::string, std::string> Commands::contents() const {
  std::map<std::string, std::string> all;
  for (const std::string& name : files())
    all[name] = fs::is_regular_file(path(name)) ? content(name) : "";
  return all;
}

void expect_line(const Ran& ran, int code, const std::string& text) {
  EXPECT_EQ(ran.code, code) << ran.out << ran.err;
  EXPECT_TRUE(ran.err.starts_with("ebb: ")) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_HAS(ran.err, text);
  EXPECT_LT(ran.err.size(), 700u) << ran.err;
}

std::string npy(const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
  return npy_of("<f4", shape, values);
}
std::string npy(const std::vector<std::int64_t>& shape, const std::vector<std::int32_t>& values) {
  return npy_of("<i4", shape, values);
}
std::vector<float> floats_of(const std::string& file) {
  if (file.size() < 10) return {};
  const std::size_t head =
      10 + static_cast<unsigned char>(file[8]) + 256 * static_cast<unsigned char>(file[9]);
  std::vector<float> all((file.size() - head) / sizeof(float));
  std::memcpy(all.data(), file.data() + head, all.size() * sizeof(float));
  return all;
}

std::string small_config(const std::string& more, const std::string& data) {
  return "[model]\nkind = \"mlp\"\nhidden = [8]\n[data]\n" +
         (data.empty() ? std::string("format = \"digits\"\nrows = 256\n") : data) +
         "[train]\nbatch = 32\n" + (length_is_said(more) ? "" : "steps = 6\n") + more +
         "[memory]\nbudget = \"none\"\n";
}

}  // namespace ebb::test
