"""The Kubernetes side: client, reflector and pure builders of everything that gangbridge writes there."""
