"""Generated code of the kubelet's DRA and plugin registration protocols; see ``regenerate.sh``."""
