"""A real Kubernetes control plane on one machine, without containers and kubelets, for tests that install the chart.

    with LocalCluster() as cluster:
        print(cluster.kubeconfig)

API server, controller manager, scheduler and etcd are the upstream programs, built from source. Only the nodes are
fake: kwok simulates their kubelets, so a pod that the scheduler places becomes Running and Ready without a process.
Admission, controllers, scheduling and disruption budgets therefore behave as in a real cluster; containers do not run.
"""

from deploy.cluster.local import LocalCluster
from deploy.cluster.programs import ClusterUnavailable, Programs, control_plane

__all__ = ["ClusterUnavailable", "LocalCluster", "Programs", "control_plane"]
