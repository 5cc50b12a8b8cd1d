// Two hosts on one machine: network namespaces with a link between them, and names of their own.
#pragma once

#include <string>
#include <vector>

namespace ebb::test {

class TwoHosts {
 public:
  TwoHosts();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  const std::string& why() const { return why_; }  // that there are none; "": there are
  std::vector<std::string> first() const;          // words before a command, to run it there
  std::vector<std::string> mpirun() const;         // words for mpirun: a rank on each
  std::string second_name() const { return name_ + "b"; }
  void cut();
  // On the second host, `instead` is what is seen in the place of `folder`: of jobs that are started later.
  void see(const std::string& folder, const std::string& instead);

 private:
  void write_agent(const std::string& first) const;
  std::string name_, why_, agent_;
};

}  // namespace ebb::test
